// A text that is edited and stored whole. The server verifies it before it is stored, and says what is wrong with it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useAction } from "../load";
import { Done, ProblemNotice } from "./answer";

interface Props {
  label: string;
  value: string;
  isNew?: boolean; // not stored yet
  save?: (text: string) => Promise<string | void>; // none: the text is only read
  children?: ComponentChildren; // more buttons
}

export function Editor({ label, value, isNew, save, children }: Props) {
  const [text, setText] = useState(value);
  const [stored, setStored] = useState(isNew ? "" : value);
  const field = useRef<HTMLTextAreaElement>(null);
  const { busy, problem, done, run } = useAction();
  const changed = text !== stored;
  useWarning(changed);
  useEffect(() => showLine(field.current, problem?.message), [problem]);
  if (!save) return <pre tabIndex={0} aria-label={label}>{value}</pre>;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (await run(() => save(text))) setStored(text);
  };
  return (
    <form onSubmit={submit}>
      <label>
        <span>{label}</span>
        <textarea ref={field} value={text} spellcheck={false} wrap="off" onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <ProblemNotice problem={problem} />
      <Done text={changed ? "" : done} />
      <div class="actions">
        {children}
        {changed && stored && <button type="button" onClick={() => setText(stored)}>Undo all changes</button>}
        <button class="primary" disabled={busy || !changed}>{busy ? "Verifying …" : "Verify and save"}</button>
      </div>
    </form>
  );
}

// The browser asks before it leaves a text that was not saved.
function useWarning(changed: boolean): void {
  useEffect(() => {
    if (!changed) return;
    const ask = (event: Event) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [changed]);
}

// Select the line that a message names ("line 12").
function showLine(field: HTMLTextAreaElement | null, message = ""): void {
  const line = Number(/\bline (\d+)/.exec(message)?.[1]);
  if (!field || !line) return;
  const lines = field.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  field.focus();
  field.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
}
