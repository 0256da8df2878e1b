// Alerts as they are raised: server-sent events, read by fetch, because the browser's EventSource sends no token.
import { useEffect, useState } from "preact/hooks";
import { send, type Item } from "./api";
import { problemOf, type Problem, type Query } from "./http";

const AGAIN_MS = 3000;
const KEPT = 200;

export interface Followed {
  items: Item[]; // newest first
  state: "off" | "waiting" | "following";
  problem?: Problem;
}

// Follow while `on`; a stream that ends is continued where it ended.
export function useStream(path: string, query: Query, on: boolean): Followed {
  const [followed, setFollowed] = useState<Followed>({ items: [], state: "off" });
  const key = JSON.stringify([path, query, on]);
  useEffect(() => {
    setFollowed({ items: [], state: on ? "waiting" : "off" });
    if (!on) return;
    const abort = new AbortController();
    let position: string | undefined;
    const add = (item: Item) => setFollowed((last) => ({ items: [item, ...last.items].slice(0, KEPT), state: "following" }));
    const follow = async () => {
      const answer = await send("GET", path, { query: { ...query, position }, signal: abort.signal });
      if (!answer.ok) throw await problemOf(answer);
      setFollowed((last) => ({ items: last.items, state: "following" }));
      for await (const event of events(answer.body!)) {
        position = event.id ?? position;
        if (event.kind === "message" && event.data) add(JSON.parse(event.data));
      }
    };
    const loop = async () => {
      while (!abort.signal.aborted) {
        await follow().catch((problem) => {
          if (!abort.signal.aborted) setFollowed((last) => ({ items: last.items, state: "waiting", problem }));
        });
        await new Promise((done) => setTimeout(done, AGAIN_MS));
      }
    };
    void loop();
    return () => abort.abort();
  }, [key]);
  return followed;
}

interface Event {
  kind: string;
  data: string;
  id?: string;
}

async function* events(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Event> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) yield parsed(part);
  }
}

function parsed(text: string): Event {
  const event: Event = { kind: "message", data: "" };
  for (const line of text.split("\n")) {
    const [name, value] = line.split(/: ?(.*)/s);
    if (name === "data") event.data += value;
    else if (name === "event") event.kind = value ?? "";
    else if (name === "id") event.id = value;
  }
  return event;
}
