import assert from "node:assert/strict";
import { test } from "node:test";
import { ofAgents, ofAlerts, ofHealth, ofNodes, ofSources } from "../src/attention";

const warning = (kind, message) => ({ kind, subject: "x", message, remediation: "Do something.", time: null });
const answer = (affected_items, dapi_errors) => ({ data: { affected_items, total_affected_items: affected_items.length, failed_items: [] }, dapi_errors });

test("nodes that are well need no attention", () => {
  assert.deepEqual(ofNodes(answer([{ name: "one", warnings: [] }])), []);
  assert.deepEqual(ofHealth({ info: { name: "one" } }), []);
});

test("a node that does not answer is named with the reason", () => {
  const [found] = ofNodes(answer([], { two: { error: "no connection" } }));
  assert.deepEqual([found.what, found.detail, found.kind], ["The node two does not answer", "no connection", "bad"]);
});

test("a warning leads to the view of its node that answers it", () => {
  const found = ofNodes(answer([{ name: "one", warnings: [warning("journal", "is full"), warning("ruleset", "old"), warning("disk", "4% left"), warning("new kind", "?")] }]));
  assert.deepEqual(found.map(({ href }) => href), ["#/cluster/one/counters", "#/cluster", "#/cluster/one", "#/cluster/one"]);
  assert.deepEqual(found.map(({ kind }) => kind), ["warning", "warning", "bad", "warning"]);
});

test("workers that are away or were refused", () => {
  const found = ofHealth({ lost: [{ name: "two", last_seen: "2026-11-22T10:00:00Z" }], refused: [{ name: "three", reason: "wrong key", time: "2026-11-22T11:00:00Z" }] });
  assert.match(found[0].detail, /secmon start/);
  assert.deepEqual(found.map(({ kind, at }) => [kind, at]), [["bad", "2026-11-22T10:00:00Z"], ["warning", "2026-11-22T11:00:00Z"]]);
});

test("alerts are counted by rule, the most frequent first, in the words of the newest", () => {
  const newest = [{ rule: { id: "7", description: "The newest." } }, { rule: { id: "7", description: "An older one." } }];
  const found = ofAlerts({ 5: 1, 7: 3 }, newest, { level: "12-16" });
  assert.deepEqual(found.map(({ what }) => what), ["The newest.", "Rule 5"]);
  assert.equal(found[0].href, "#/alerts?level=12-16&q=rule.id%3D7");
});

test("of many lost agents some are named", () => {
  const items = [{ name: "a" }, { name: "b" }, { name: "c" }];
  assert.deepEqual(ofAgents({ affected_items: [], total_affected_items: 0 }, "q"), []);
  assert.equal(ofAgents({ affected_items: items, total_affected_items: 9 }, "q")[0].detail, "a, b, c and 6 more");
  assert.equal(ofAgents({ affected_items: items.slice(2), total_affected_items: 1 }, "q")[0].what, "1 agent lost in the last 24 hours");
});

test("sources that fell silent", () => {
  const source = (location) => ({ agent: { id: "001", name: "web" }, location, since: "2026-11-22T20:20:10Z" });
  assert.deepEqual(ofSources({ affected_items: [], total_affected_items: 0 }), []);
  const [found] = ofSources({ affected_items: [source("/var/log/x"), source("")], total_affected_items: 2 });
  assert.deepEqual([found.detail, found.at, found.href], ["/var/log/x of web, web", "2026-11-22T20:20:10Z", "#/agents/silent"]);
});
