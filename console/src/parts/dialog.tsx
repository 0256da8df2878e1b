// A question that is answered before anything else: the browser's own modal dialog, which keeps the focus inside.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useAction } from "../load";
import { ProblemNotice } from "./answer";

interface Props {
  title: string;
  children?: ComponentChildren;
  action: string;
  danger?: boolean;
  onDo: (form: FormData) => Promise<unknown>;
  onClose: () => void;
}

export function Dialog({ title, children, action, danger, onDo, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { busy, problem, run } = useAction();
  useEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    if (await run(async () => void (await onDo(form)))) onClose();
  };
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        <ProblemNotice problem={problem} />
        <div class="actions">
          <button type="button" onClick={() => dialog.current?.close()}>Cancel</button>
          <button class={danger ? "danger" : "primary"} disabled={busy}>{action}</button>
        </div>
      </form>
    </dialog>
  );
}
