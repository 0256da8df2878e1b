// A button that asks before it changes something, and says what came of it.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Answer } from "../api";
import { may } from "../session";
import { Dialog } from "./dialog";
import { say } from "./said";

interface Props {
  label: string;
  title: string;
  needs: string; // an action; without it there is no button
  danger?: boolean;
  run: (form: FormData) => Promise<Answer<unknown>>;
  then?: () => void;
  children?: ComponentChildren; // what is to be known or filled in
}

export function Action({ label, title, needs, danger, run, then, children }: Props) {
  const [open, setOpen] = useState(false);
  if (!may(needs)) return null;
  const work = async (form: FormData) => {
    const { message } = await run(form);
    say(message ?? "Done");
    then?.();
  };
  return (
    <>
      <button class={danger ? "danger" : ""} onClick={() => setOpen(true)}>{label}</button>
      {open && <Dialog {...{ title, danger, children }} action={label.replace(" …", "")} onDo={work} onClose={() => setOpen(false)} />}
    </>
  );
}
