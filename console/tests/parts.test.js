import assert from "node:assert/strict";
import { test } from "node:test";
import { link } from "../src/address";
import { step } from "../src/alerts";
import { at } from "../src/api";
import { url } from "../src/http";
import { ofAlerts } from "../src/scores";
import { described, end, filtersOf, scope } from "../src/silences";

test("addresses escape what they are given, and leave empty filters out", () => {
  assert.equal(link(["ruleset", "a/b ü"], { q: "id=1;level>3", search: "", page: undefined }), "#/ruleset/a%2Fb%20%C3%BC?q=id%3D1%3Blevel%3E3");
  assert.equal(at`/groups/${"../x?y"}/files`, "/groups/..%2Fx%3Fy/files");
  assert.equal(url("/agents", { q: "a=b&c", limit: 5, sort: "" }), "/agents?q=a%3Db%26c&limit=5");
});

test("a histogram has at most 60 steps", () => {
  assert.equal(step("now-1h", ""), "1m");
  assert.equal(step("now-24h", ""), "30m");
  assert.equal(step("now-30d", ""), "1d");
  assert.equal(step("2026-11-22T10:00:00Z", "2026-11-22T10:00:20Z"), "1s");
});

const summary = (timestamp, policy, score) => ({ timestamp, data: { sca: { policy, score } } });

test("scores of several policies share one axis of time, the oldest first", () => {
  const found = ofAlerts([summary("2026-11-22T12:00:00Z", "B", "70"), summary("2026-11-22T11:00:00Z", "A", "50"), summary("2026-11-22T10:00:00Z", "B", "60"), summary("n/a", "A", "1"), { timestamp: "2026-11-22T09:00:00Z" }]);
  assert.deepEqual(found.policies, [{ name: "A", values: [null, 50, null] }, { name: "B", values: [60, null, 70] }]);
  assert.equal(found.times[1] - found.times[0], 3600);
});

test("a silence takes the filters of alerts, not their times", () => {
  const filters = new URLSearchParams("since=now-1h&q=rule.level>3&rule_ids=5710&cursor=1&live=1");
  assert.deepEqual(filtersOf(filters), { rule_ids: "5710", q: "rule.level>3" });
  assert.equal(described({ rule_ids: ["5710", "5711"], level: "3-7" }), "Rules 5710, 5711; Levels 3-7");
});

test("which agents a silence covers", () => {
  assert.equal(scope({ ids: [], excluded: true }), "all agents");
  assert.equal(scope({ ids: ["001"], excluded: true }), "all agents but 001");
  assert.equal(scope({ ids: ["001"], excluded: false }), "agent 001");
  assert.equal(scope({ ids: ["001", "002"], excluded: false }), "agents 001, 002");
});

test("the end of a silence is a length, or a time in UTC", () => {
  assert.equal(end("now+1h", ""), "now+1h");
  assert.match(end("", "2026-11-23T08:00"), /^2026-11-2[23]T\d\d:\d\d:00Z$/);
});
