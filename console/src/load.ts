// An answer of the API as the state of a part of a page: loaded when it is shown, again when what it asks for changes.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Answer } from "./api";
import { away, type Problem } from "./http";
import { useStore } from "./store";

const SERVER_ERROR = 500; // and above: what a node answers that starts, or that has lost the master
const AFTER_ERROR_MS = 5000;
const AFTER_PART_MS = 15_000;

export interface Load<T> {
  value?: T;
  problem?: Problem;
  loading: boolean;
  again: () => void;
}

// `key` says what `ask` asks for; with `every`, in seconds, it is asked again while the page is looked at. The last value
// stays until the next one is there, but for one about another `subject`, which would be shown under a wrong name. What
// was asked while the node was away, or could not answer, is asked again, and so is an answer without the part of some nodes.
export function useLoad<T>(ask: (signal: AbortSignal) => Promise<T>, key: unknown[], every = 0, subject: unknown[] = key): Load<T> {
  const [state, setState] = useState<{ value?: T; problem?: Problem; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  const asked = useRef("");
  const name = JSON.stringify(key);
  const about = JSON.stringify(subject);
  const again = useCallback(() => setTurn((count) => count + 1), []);

  useEffect(() => {
    const abort = new AbortController();
    const fresh = asked.current !== about;
    asked.current = about;
    setState((last) => ({ value: fresh ? undefined : last.value, problem: fresh ? undefined : last.problem, loading: true }));
    ask(abort.signal).then(
      (value) => abort.signal.aborted || setState({ value, loading: false }),
      (problem) => abort.signal.aborted || setState((last) => ({ value: last.value, problem, loading: false })),
    );
    return () => abort.abort();
  }, [name, turn]);

  useEffect(() => {
    if (!every) return;
    const timer = setInterval(() => document.visibilityState === "visible" && again(), every * 1000);
    return () => clearInterval(timer);
  }, [every]);

  const absent = useStore(away) !== null;
  const status = state.problem?.status;
  useEffect(() => {
    if (!absent && status === 0) again();
  }, [absent]);
  useEffect(() => {
    const pause = (status ?? 0) >= SERVER_ERROR ? AFTER_ERROR_MS : lacksNodes(state.value) ? AFTER_PART_MS : 0;
    if (state.loading || !pause) return;
    const timer = setTimeout(again, pause);
    return () => clearTimeout(timer);
  }, [state]);

  return { ...state, again };
}

function lacksNodes(value: unknown): boolean {
  return Object.keys((value as Partial<Answer<unknown>> | undefined)?.dapi_errors ?? {}).length > 0;
}

// A change that the user asked for: at most one at a time, with its outcome.
export function useAction(): { busy: boolean; problem?: Problem; done: string; run: (work: () => Promise<string | void>) => Promise<boolean> } {
  const [state, setState] = useState<{ busy: boolean; problem?: Problem; done: string }>({ busy: false, done: "" });
  const run = async (work: () => Promise<string | void>) => {
    setState({ busy: true, done: "" });
    try {
      const done = (await work()) ?? "";
      setState({ busy: false, done });
      return true;
    } catch (problem) {
      setState({ busy: false, done: "", problem: problem as Problem });
      return false;
    }
  };
  return { ...state, run };
}
