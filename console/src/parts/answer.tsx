// What stands in the place of an answer that is not there (yet), or not whole.
import type { ComponentChildren } from "preact";
import type { Failure, NodeErrors } from "../api";
import { PERMISSION_DENIED, type Problem } from "../http";
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

// What was asked for and is missing in an answer, with the reasons.
export function Failures({ of }: { of: Failure[] }) {
  return (
    <>
      {of.map(({ id, error }) => (
        <Notice key={id.join()} kind={error.code === PERMISSION_DENIED ? "warning" : "bad"} title={`${error.message}: ${id.join(", ")}`}>
          {error.code === PERMISSION_DENIED && <p>What you may not read is missing here.</p>}
          {error.remediation && <p>{error.remediation}</p>}
        </Notice>
      ))}
    </>
  );
}

// Children show the value; until it is there, or when it cannot be had, this says so. That the node is away is said once,
// above the page.
export function Loaded<T>({ load, children }: { load: Load<T>; children: (value: T) => ComponentChildren }) {
  const unreached = load.problem?.status === 0;
  return (
    <>
      <ProblemNotice problem={unreached ? undefined : load.problem} again={load.again} />
      {load.value !== undefined ? children(load.value) : (load.loading || unreached) && <p class="quiet" role="status">Loading …</p>}
    </>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
