// Tells that the node that serves this page is away. It is asked until it answers; then the page goes on by itself.
import { useEffect } from "preact/hooks";
import { away, reach } from "../http";
import { useStore } from "../store";
import { Notice } from "./answer";

const EVERY_MS = 3000;
const PAGE = "/console"; // needs no token

export function Away() {
  const problem = useStore(away);
  useEffect(() => {
    if (!problem) return;
    const timer = setInterval(() => reach(PAGE, { method: "HEAD" }).catch(() => undefined), EVERY_MS);
    return () => clearInterval(timer);
  }, [!problem]);
  return problem && (
    <Notice kind="bad" title={problem.title}>
      <p>{problem.detail} {problem.remediation}</p>
      <p>What you see may be old. This page goes on as soon as the node answers.</p>
    </Notice>
  );
}
