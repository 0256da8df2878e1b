// What stands in the place of an answer that is not there (yet), or not whole.
import type { ComponentChildren } from "preact";
import type { NodeErrors } from "../api";
import type { Problem } from "../http";
import type { Load } from "../load";

export function Notice({ kind = "info", title, children }: { kind?: string; title?: string; children?: ComponentChildren }) {
  return (
    <div class={`notice ${kind}`} role={kind === "bad" ? "alert" : "status"}>
      {title && <strong>{title}</strong>}
      {children}
    </div>
  );
}

export function ProblemNotice({ problem, again }: { problem?: Problem; again?: () => void }) {
  if (!problem) return null;
  const { denied } = problem;
  return (
    <Notice kind={denied ? "info" : "bad"} title={denied ? "You may not see or do this" : problem.title || "This did not work"}>
      <p>{problem.detail || problem.message}</p>
      {problem.remediation && <p>{problem.remediation}</p>}
      {again && !denied && <button onClick={again}>Try again</button>}
    </Notice>
  );
}

export function MissingNodes({ errors }: { errors?: NodeErrors }) {
  const names = Object.entries(errors ?? {});
  if (!names.length) return null;
  return (
    <Notice kind="warning" title="Some nodes did not answer; what they hold is missing here">
      {names.map(([name, { error }]) => <p key={name}><b>{name}</b>: {error}</p>)}
    </Notice>
  );
}

export function Done({ text }: { text: string }) {
  return <div role="status" class={text ? "notice good" : "unseen"}>{text}</div>;
}

// Children show the value; until it is there, or when it cannot be had, this says so.
export function Loaded<T>({ load, children }: { load: Load<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      <ProblemNotice problem={load.problem} again={load.again} />
      {load.value !== undefined ? children(load.value) : load.loading && <p class="quiet" role="status">Loading …</p>}
    </>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
