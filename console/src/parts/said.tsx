// What came of the last change, for a few seconds.
import { useEffect } from "preact/hooks";
import { Store, useStore } from "../store";

const SHOWN_MS = 6000;
const said = new Store("");

export const say = (text: string): void => said.set(text);

export function Said() {
  const text = useStore(said);
  useEffect(() => {
    if (!text) return;
    const timer = setTimeout(() => said.set(""), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return <div class={text ? "said" : "unseen"} role="status">{text}</div>;
}
