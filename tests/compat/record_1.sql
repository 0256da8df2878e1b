CREATE SCHEMA secmon;
CREATE TABLE secmon.audit (
    seq bigint NOT NULL,
    lines bytea NOT NULL
);
CREATE TABLE secmon.authority (
    one integer NOT NULL,
    certificate text NOT NULL,
    sealed_key bytea NOT NULL
);
CREATE TABLE secmon.candidates (
    node text NOT NULL,
    address text NOT NULL,
    port integer NOT NULL,
    seen timestamp with time zone NOT NULL
);
CREATE TABLE secmon.contents (
    hash text NOT NULL,
    part integer NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE secmon.files (
    path text NOT NULL,
    hash text NOT NULL,
    size bigint NOT NULL
);
CREATE TABLE secmon.release (
    version integer NOT NULL
);
CREATE TABLE secmon.rows (
    store text NOT NULL,
    "table" text NOT NULL,
    key text NOT NULL,
    "row" json,
    revision bigint NOT NULL
);
CREATE TABLE secmon.stores (
    store text NOT NULL,
    revision bigint NOT NULL,
    commit_id text NOT NULL
);
CREATE TABLE secmon.term (
    one integer NOT NULL,
    number bigint NOT NULL,
    id text NOT NULL,
    holder text NOT NULL,
    address text NOT NULL,
    port integer NOT NULL,
    since timestamp with time zone NOT NULL,
    renewed timestamp with time zone NOT NULL,
    ttl_seconds integer NOT NULL,
    resigned boolean NOT NULL,
    successor text NOT NULL,
    reason text NOT NULL
);
INSERT INTO secmon.contents VALUES ('54181bf27a09c161ac60524e0793853ff0e599d3401d39c8e4415c2a8eba23aa', 0, '\x726f6f743a756e69780a746f6f723a756e69780a61646d696e3a756e69780a776865656c3a756e69780a706f7374677265733a64617461626173650a6d7973716c3a64617461626173650a6f7261636c653a64617461626173650a41646d696e6973747261746f723a77696e646f77730a61646d696e6973747261746f723a77696e646f77730a446f6d61696e2041646d696e733a77696e646f77730a73613a64617461626173650a');
INSERT INTO secmon.contents VALUES ('4c70fc9d75601d3dac8bd9e89aff5f3c52ff235956dfce1dba5e2d5cedbe65ae', 0, '\x6e633a6e6574776f726b207368656c6c0a6e6361743a6e6574776f726b207368656c6c0a6e65746361743a6e6574776f726b207368656c6c0a736f6361743a6e6574776f726b207368656c6c0a786d7269673a6d696e65720a6d696e6572643a6d696e65720a6d61737363616e3a7363616e6e65720a6e6d61703a7363616e6e65720a68796472613a70617373776f726420677565737365720a6d65647573613a70617373776f726420677565737365720a6d696d696b61747a3a63726564656e7469616c2074686566740a6c696e706561732e73683a7265636f6e6e61697373616e63650a7073707936343a7265636f6e6e61697373616e63650a63686973656c3a74756e6e656c0a667270633a74756e6e656c0a6e67726f6b3a74756e6e656c0a');
INSERT INTO secmon.contents VALUES ('578e57b77a23f605ef04693844138baec52002a615347d2c816bac6ea228c085', 0, '\x61756469742d6163636573733a726561640a61756469742d617474726962757465733a6174747269627574650a61756469742d636f6d6d616e64733a657865637574650a61756469742d636f6e6669673a636f6e6669670a61756469742d6964656e746974793a6964656e746974790a61756469742d6d6f64756c65733a6d6f64756c650a61756469742d74696d653a74696d650a61756469742d77726974653a77726974650a');
INSERT INTO secmon.contents VALUES ('c8af236736e05ccec22a5888adffd9459a8ae268828b8266e03c93cdb94959e6', 0, '\x3c6167656e745f636f6e6669673e0a0a20203c212d2d20436f6e66696775726174696f6e207468617420616c6c206167656e7473206f6620746869732067726f75702073686172652e202d2d3e0a0a3c2f6167656e745f636f6e6669673e0a');
INSERT INTO secmon.files VALUES ('etc/lists/privileged-users', '54181bf27a09c161ac60524e0793853ff0e599d3401d39c8e4415c2a8eba23aa', 169);
INSERT INTO secmon.files VALUES ('etc/lists/suspicious-programs', '4c70fc9d75601d3dac8bd9e89aff5f3c52ff235956dfce1dba5e2d5cedbe65ae', 291);
INSERT INTO secmon.files VALUES ('etc/lists/audit-keys', '578e57b77a23f605ef04693844138baec52002a615347d2c816bac6ea228c085', 167);
INSERT INTO secmon.files VALUES ('etc/shared/agent-template.conf', 'c8af236736e05ccec22a5888adffd9459a8ae268828b8266e03c93cdb94959e6', 95);
INSERT INTO secmon.files VALUES ('etc/shared/default/agent.conf', 'c8af236736e05ccec22a5888adffd9459a8ae268828b8266e03c93cdb94959e6', 95);
INSERT INTO secmon.release VALUES (1);
INSERT INTO secmon.rows VALUES ('security', 'users', '[1]', '{"id": 1, "username": "admin", "password": "$argon2id$v=19$m=19456,t=2,p=1$TIdX3Bqsct9Vg8lU+Nt6BA$FwquwQtWoijLuKjfxcKgkbIoBPDUl77cLpacAJ6HQUc", "allow_run_as": true, "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'users', '[2]', '{"id": 2, "username": "dashboard", "password": "$argon2id$v=19$m=19456,t=2,p=1$YLPCzn9n7JtX5FWaOyYc/A$PPJsiBCTWK62/X3LNCegcFIWDIUPC098VB2BPIfnGz8", "allow_run_as": true, "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'roles', '[1]', '{"id": 1, "name": "administrator", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'roles', '[2]', '{"id": 2, "name": "readonly", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'roles', '[3]', '{"id": 3, "name": "users_admin", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'roles', '[4]', '{"id": 4, "name": "agents_readonly", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'roles', '[5]', '{"id": 5, "name": "agents_admin", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'roles', '[6]', '{"id": 6, "name": "cluster_readonly", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'roles', '[7]', '{"id": 7, "name": "cluster_admin", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[1]', '{"id": 1, "name": "agents_all_resourceless", "policy": "{\"actions\":[\"agent:create\",\"group:create\",\"agent:uninstall\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[2]', '{"id": 2, "name": "agents_all_agents", "policy": "{\"actions\":[\"agent:read\",\"agent:delete\",\"agent:modify_group\",\"agent:reconnect\",\"agent:restart\",\"agent:upgrade\"],\"resources\":[\"agent:id:*\",\"agent:group:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[3]', '{"id": 3, "name": "agents_all_groups", "policy": "{\"actions\":[\"group:read\",\"group:delete\",\"group:update_config\",\"group:modify_assignments\"],\"resources\":[\"group:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[4]', '{"id": 4, "name": "agents_read_agents", "policy": "{\"actions\":[\"agent:read\"],\"resources\":[\"agent:id:*\",\"agent:group:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[5]', '{"id": 5, "name": "agents_read_groups", "policy": "{\"actions\":[\"group:read\"],\"resources\":[\"group:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[6]', '{"id": 6, "name": "agents_commands_agents", "policy": "{\"actions\":[\"active-response:command\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[7]', '{"id": 7, "name": "security_all_resourceless", "policy": "{\"actions\":[\"security:create\",\"security:create_user\",\"security:edit_run_as\",\"security:read_config\",\"security:update_config\",\"security:revoke\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[8]', '{"id": 8, "name": "security_all_security", "policy": "{\"actions\":[\"security:read\",\"security:update\",\"security:delete\"],\"resources\":[\"role:id:*\",\"policy:id:*\",\"user:id:*\",\"rule:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[9]', '{"id": 9, "name": "users_all_resourceless", "policy": "{\"actions\":[\"security:create_user\",\"security:edit_run_as\",\"security:revoke\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[10]', '{"id": 10, "name": "users_all_users", "policy": "{\"actions\":[\"security:read\",\"security:update\",\"security:delete\"],\"resources\":[\"user:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[11]', '{"id": 11, "name": "users_modify_run_as_flag", "policy": "{\"actions\":[\"security:edit_run_as\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[12]', '{"id": 12, "name": "ciscat_read_ciscat", "policy": "{\"actions\":[\"ciscat:read\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[13]', '{"id": 13, "name": "decoders_read_decoders", "policy": "{\"actions\":[\"decoders:read\"],\"resources\":[\"decoder:file:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[14]', '{"id": 14, "name": "decoders_all_files", "policy": "{\"actions\":[\"decoders:read\",\"decoders:delete\"],\"resources\":[\"decoder:file:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[15]', '{"id": 15, "name": "decoders_all_resourceless", "policy": "{\"actions\":[\"decoders:update\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[16]', '{"id": 16, "name": "mitre_read_mitre", "policy": "{\"actions\":[\"mitre:read\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[17]', '{"id": 17, "name": "lists_read_rules", "policy": "{\"actions\":[\"lists:read\"],\"resources\":[\"list:file:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[18]', '{"id": 18, "name": "lists_all_rules", "policy": "{\"actions\":[\"lists:read\",\"lists:delete\"],\"resources\":[\"list:file:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[19]', '{"id": 19, "name": "lists_all_resourceless", "policy": "{\"actions\":[\"lists:update\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[20]', '{"id": 20, "name": "rootcheck_read_rootcheck", "policy": "{\"actions\":[\"rootcheck:read\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[21]', '{"id": 21, "name": "rootcheck_all_rootcheck", "policy": "{\"actions\":[\"rootcheck:clear\",\"rootcheck:read\",\"rootcheck:run\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[22]', '{"id": 22, "name": "rules_read_rules", "policy": "{\"actions\":[\"rules:read\"],\"resources\":[\"rule:file:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[23]', '{"id": 23, "name": "rules_all_files", "policy": "{\"actions\":[\"rules:read\",\"rules:delete\"],\"resources\":[\"rule:file:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[24]', '{"id": 24, "name": "rules_all_resourceless", "policy": "{\"actions\":[\"rules:update\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[25]', '{"id": 25, "name": "sca_read_sca", "policy": "{\"actions\":[\"sca:read\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[26]', '{"id": 26, "name": "syscheck_read_syscheck", "policy": "{\"actions\":[\"syscheck:read\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[3,10]', '{"role_id": 3, "policy_id": 10, "position": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[27]', '{"id": 27, "name": "syscheck_all_syscheck", "policy": "{\"actions\":[\"syscheck:clear\",\"syscheck:read\",\"syscheck:run\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[28]', '{"id": 28, "name": "syscollector_read_syscollector", "policy": "{\"actions\":[\"syscollector:read\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[29]', '{"id": 29, "name": "cluster_all_resourceless", "policy": "{\"actions\":[\"cluster:status\",\"manager:read\",\"manager:read_api_config\",\"manager:update_config\",\"manager:restart\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[30]', '{"id": 30, "name": "cluster_all_nodes", "policy": "{\"actions\":[\"cluster:read_api_config\",\"cluster:read\",\"cluster:restart\",\"cluster:update_config\"],\"resources\":[\"node:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[31]', '{"id": 31, "name": "cluster_read_resourceless", "policy": "{\"actions\":[\"cluster:status\",\"manager:read\",\"manager:read_api_config\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[32]', '{"id": 32, "name": "cluster_read_nodes", "policy": "{\"actions\":[\"cluster:read_api_config\",\"cluster:read\"],\"resources\":[\"node:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[33]', '{"id": 33, "name": "logtest_all_logtest", "policy": "{\"actions\":[\"logtest:run\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[34]', '{"id": 34, "name": "task_status_task", "policy": "{\"actions\":[\"task:status\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[35]', '{"id": 35, "name": "events_ingest_resourceless", "policy": "{\"actions\":[\"event:ingest\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[36]', '{"id": 36, "name": "vulnerability_read_vulnerability", "policy": "{\"actions\":[\"vulnerability:read\"],\"resources\":[\"agent:id:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'policies', '[37]', '{"id": 37, "name": "vulnerability_run_resourceless", "policy": "{\"actions\":[\"vulnerability:run\"],\"resources\":[\"*:*:*\"],\"effect\":\"allow\"}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'rules', '[1]', '{"id": 1, "name": "wui_elastic_admin", "rule": "{\"FIND\":{\"username\":\"elastic\"}}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'rules', '[2]', '{"id": 2, "name": "wui_opensearch_admin", "rule": "{\"FIND\":{\"user_name\":\"admin\"}}", "created_at": 1795381230}', 2);
INSERT INTO secmon.rows VALUES ('security', 'user_roles', '[1,1]', '{"user_id": 1, "role_id": 1, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'user_roles', '[2,1]', '{"user_id": 2, "role_id": 1, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,1]', '{"role_id": 1, "policy_id": 1, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,2]', '{"role_id": 1, "policy_id": 2, "position": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,3]', '{"role_id": 1, "policy_id": 3, "position": 2}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,6]', '{"role_id": 1, "policy_id": 6, "position": 3}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,7]', '{"role_id": 1, "policy_id": 7, "position": 4}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,8]', '{"role_id": 1, "policy_id": 8, "position": 5}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,12]', '{"role_id": 1, "policy_id": 12, "position": 8}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,14]', '{"role_id": 1, "policy_id": 14, "position": 9}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,15]', '{"role_id": 1, "policy_id": 15, "position": 10}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,16]', '{"role_id": 1, "policy_id": 16, "position": 16}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,18]', '{"role_id": 1, "policy_id": 18, "position": 11}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,19]', '{"role_id": 1, "policy_id": 19, "position": 12}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,21]', '{"role_id": 1, "policy_id": 21, "position": 13}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,23]', '{"role_id": 1, "policy_id": 23, "position": 14}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,24]', '{"role_id": 1, "policy_id": 24, "position": 15}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,25]', '{"role_id": 1, "policy_id": 25, "position": 17}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,27]', '{"role_id": 1, "policy_id": 27, "position": 18}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,28]', '{"role_id": 1, "policy_id": 28, "position": 19}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,29]', '{"role_id": 1, "policy_id": 29, "position": 6}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,30]', '{"role_id": 1, "policy_id": 30, "position": 7}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,33]', '{"role_id": 1, "policy_id": 33, "position": 20}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,34]', '{"role_id": 1, "policy_id": 34, "position": 21}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,35]', '{"role_id": 1, "policy_id": 35, "position": 22}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,36]', '{"role_id": 1, "policy_id": 36, "position": 23}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[1,37]', '{"role_id": 1, "policy_id": 37, "position": 24}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,4]', '{"role_id": 2, "policy_id": 4, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,5]', '{"role_id": 2, "policy_id": 5, "position": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,12]', '{"role_id": 2, "policy_id": 12, "position": 2}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,13]', '{"role_id": 2, "policy_id": 13, "position": 5}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,16]', '{"role_id": 2, "policy_id": 16, "position": 9}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,17]', '{"role_id": 2, "policy_id": 17, "position": 6}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,20]', '{"role_id": 2, "policy_id": 20, "position": 7}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,22]', '{"role_id": 2, "policy_id": 22, "position": 8}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,25]', '{"role_id": 2, "policy_id": 25, "position": 10}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,26]', '{"role_id": 2, "policy_id": 26, "position": 11}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,28]', '{"role_id": 2, "policy_id": 28, "position": 12}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,31]', '{"role_id": 2, "policy_id": 31, "position": 3}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,32]', '{"role_id": 2, "policy_id": 32, "position": 4}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[2,36]', '{"role_id": 2, "policy_id": 36, "position": 13}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[3,9]', '{"role_id": 3, "policy_id": 9, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[4,4]', '{"role_id": 4, "policy_id": 4, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[4,5]', '{"role_id": 4, "policy_id": 5, "position": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[5,1]', '{"role_id": 5, "policy_id": 1, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[5,2]', '{"role_id": 5, "policy_id": 2, "position": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[5,3]', '{"role_id": 5, "policy_id": 3, "position": 2}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[6,31]', '{"role_id": 6, "policy_id": 31, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[6,32]', '{"role_id": 6, "policy_id": 32, "position": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[7,29]', '{"role_id": 7, "policy_id": 29, "position": 0}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_policies', '[7,30]', '{"role_id": 7, "policy_id": 30, "position": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_rules', '[1,1]', '{"role_id": 1, "rule_id": 1}', 2);
INSERT INTO secmon.rows VALUES ('security', 'role_rules', '[1,2]', '{"role_id": 1, "rule_id": 2}', 2);
INSERT INTO secmon.rows VALUES ('security', 'settings', '["auth_token_exp_timeout"]', '{"name": "auth_token_exp_timeout", "value": "900"}', 2);
INSERT INTO secmon.rows VALUES ('security', 'settings', '["rbac_mode"]', '{"name": "rbac_mode", "value": "\"white\""}', 2);
INSERT INTO secmon.rows VALUES ('security', 'signing_keys', '["58a0e25584d749139365c85f5eb5d5aa"]', '{"kid": "58a0e25584d749139365c85f5eb5d5aa", "node": "", "public_pem": "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEAKPsYfbyEnsWtW2gOD7OkqTIYOcx\nYgwJY2L28TGLAIDbcRYrJ7IatTS64MG+Xt8R1u1Vj2u0hTyJhFh3IQl5GA==\n-----END PUBLIC KEY-----\n", "created": 1795381230, "retired_at": null}', 2);
INSERT INTO secmon.rows VALUES ('security', 'sequences', '["policies"]', '{"name": "policies", "next_id": 100}', 2);
INSERT INTO secmon.rows VALUES ('security', 'sequences', '["roles"]', '{"name": "roles", "next_id": 100}', 2);
INSERT INTO secmon.rows VALUES ('security', 'sequences', '["rules"]', '{"name": "rules", "next_id": 100}', 2);
INSERT INTO secmon.rows VALUES ('security', 'sequences', '["users"]', '{"name": "users", "next_id": 100}', 2);
INSERT INTO secmon.rows VALUES ('security', 'meta', '["revision"]', '{"name": "revision", "value": "1"}', 2);
INSERT INTO secmon.rows VALUES ('security', 'meta', '["shared_revision"]', '{"name": "shared_revision", "value": "1"}', 2);
INSERT INTO secmon.rows VALUES ('security', 'meta', '["store_id"]', '{"name": "store_id", "value": "2e123619-c1f1-482b-96d3-58267e806e04"}', 2);
INSERT INTO secmon.rows VALUES ('registry', 'agents', '[1]', '{"id": 1, "name": "web-1", "register_ip": "any", "internal_key": "44872afb2e1cfa92b13a9c2a3a588dd148e63e6fbd76b5d005098d214a4336a0", "date_add": 1700000000, "group": null, "group_hash": null, "revision": 1}', 2);
INSERT INTO secmon.rows VALUES ('registry', 'agents', '[2]', '{"id": 2, "name": "db-1", "register_ip": "any", "internal_key": "b7b36a37fa309fd2bee298be99f12fc03a12ef095fcbfe745f72e6b4ebf62a94", "date_add": 1700000000, "group": null, "group_hash": null, "revision": 2}', 2);
INSERT INTO secmon.rows VALUES ('registry', 'meta', '["digest"]', '{"name": "digest", "value": "acc177bff4a1a15ca4b889206a062833"}', 2);
INSERT INTO secmon.rows VALUES ('registry', 'meta', '["next_id"]', '{"name": "next_id", "value": "3"}', 2);
INSERT INTO secmon.rows VALUES ('registry', 'meta', '["revision"]', '{"name": "revision", "value": "2"}', 2);
INSERT INTO secmon.rows VALUES ('registry', 'meta', '["store_id"]', '{"name": "store_id", "value": "013c2713-1719-4fb3-83ba-34f0852d2d22"}', 2);
INSERT INTO secmon.stores VALUES ('security', 2, '');
INSERT INTO secmon.stores VALUES ('registry', 2, '');
INSERT INTO secmon.stores VALUES ('tasks', 2, '');
INSERT INTO secmon.term VALUES (1, 0, 'b57c200c844540d895a886b1cf3315f3', '', '', 0, '2026-11-22 21:01:11.522997+00', '2026-11-22 21:01:11.522997+00', 10, false, '', 'the store of record is new');
ALTER TABLE ONLY secmon.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY secmon.authority
    ADD CONSTRAINT authority_pkey PRIMARY KEY (one);
ALTER TABLE ONLY secmon.candidates
    ADD CONSTRAINT candidates_pkey PRIMARY KEY (node);
ALTER TABLE ONLY secmon.contents
    ADD CONSTRAINT contents_pkey PRIMARY KEY (hash, part);
ALTER TABLE ONLY secmon.files
    ADD CONSTRAINT files_pkey PRIMARY KEY (path);
ALTER TABLE ONLY secmon.release
    ADD CONSTRAINT release_pkey PRIMARY KEY (version);
ALTER TABLE ONLY secmon.rows
    ADD CONSTRAINT rows_pkey PRIMARY KEY (store, "table", key);
ALTER TABLE ONLY secmon.stores
    ADD CONSTRAINT stores_pkey PRIMARY KEY (store);
ALTER TABLE ONLY secmon.term
    ADD CONSTRAINT term_number_key UNIQUE (number);
ALTER TABLE ONLY secmon.term
    ADD CONSTRAINT term_pkey PRIMARY KEY (one);
CREATE INDEX rows_by_revision ON secmon.rows USING btree (store, revision);
