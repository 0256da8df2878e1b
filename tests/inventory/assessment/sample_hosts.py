"""For each policy, a host on which all of its checks pass, and hosts on which they fail."""

from tests.inventory.assessment.rule_evaluation import Host

SSHD = "/etc/ssh/sshd_config"
GOOD_SSHD = """
PermitRootLogin no
PasswordAuthentication no
MaxAuthTries 4
LoginGraceTime 60
AllowGroups admins
ClientAliveInterval 300
UsePAM yes
AllowTcpForwarding no
Ciphers aes256-gcm@openssh.com
MACs hmac-sha2-512-etm@openssh.com
KexAlgorithms curve25519-sha256
#PermitEmptyPasswords yes
"""
BAD_SSHD = """
PermitRootLogin yes
PasswordAuthentication yes
PermitEmptyPasswords yes
MaxAuthTries 6
LoginGraceTime 0
X11Forwarding yes
HostbasedAuthentication yes
IgnoreRhosts no
PermitUserEnvironment yes
ClientAliveInterval 0
UsePAM no
LogLevel QUIET
Ciphers aes256-gcm@openssh.com,aes256-cbc
MACs hmac-sha1
KexAlgorithms diffie-hellman-group14-sha1
GatewayPorts yes
"""
GOOD_KERNEL = {
    "kernel/randomize_va_space": "2",
    "kernel/kptr_restrict": "1",
    "kernel/dmesg_restrict": "1",
    "kernel/yama/ptrace_scope": "1",
    "kernel/unprivileged_bpf_disabled": "2",
    "fs/suid_dumpable": "0",
    "fs/protected_symlinks": "1",
    "fs/protected_hardlinks": "1",
    "net/ipv4/conf/all/accept_redirects": "0",
    "net/ipv4/conf/all/accept_source_route": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/all/rp_filter": "2",
    "net/ipv4/tcp_syncookies": "1",
    "net/ipv4/icmp_echo_ignore_broadcasts": "1",
}
MODULES = "\n".join(f"install {name} /bin/false" for name in ("dccp", "sctp", "cramfs", "usb-storage"))
GOOD_ACCOUNTS = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\nsys0:x:10:0::/:/bin/false",
    "/etc/shadow": "root:$y$j9T$abc:19000:0:99999:7:::\nann:!:19000::::::",
    "/etc/group": "root:x:0:",
    "/etc/login.defs": "ENCRYPT_METHOD YESCRYPT\nPASS_MAX_DAYS\t365\nPASS_WARN_AGE   7\nUMASK 027".replace("\t", " "),
    "/etc/security/pwquality.conf": "minlen = 14",
    "/etc/security/faillock.conf": "deny = 5",
    "/etc/sudoers": "# NOPASSWD is not used\nDefaults use_pty\nDefaults logfile=/var/log/sudo.log\n%sudo ALL=(ALL) ALL",
    "/etc/pam.d/su": "auth required pam_wheel.so use_uid",
}
BAD_ACCOUNTS = {
    "/etc/passwd": "root:x:0:0::/root:/bin/bash\ntoor:x:0:0::/:/bin/sh\nold:abXY12:7:7::/:/bin/sh\n+::::::",
    "/etc/shadow": "root:$1$salt$hash:19000::::::\nguest::19000::::::",
    "/etc/login.defs": "ENCRYPT_METHOD MD5\nPASS_MAX_DAYS 99999\nPASS_WARN_AGE 1\nUMASK 022",
    "/etc/security/pwquality.conf": "minlen = 8\ndictcheck = 0",
    "/etc/security/faillock.conf": "deny = 10",
    "/etc/sudoers.d/all": "ann ALL=(ALL) NOPASSWD: ALL",
}
GOOD_BASE = {
    "/proc/mounts": "tmpfs /tmp tmpfs rw,nosuid,nodev,noexec 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0",
    "/etc/systemd/journald.conf": "[Journal]\nStorage=persistent",
    "/var/log/wtmp": "",
}
BAD_BASE = {
    "/proc/mounts": "tmpfs /dev/shm tmpfs rw 0 0",
    "/etc/systemd/journald.conf": "#Storage=persistent",
    "/usr/sbin/in.telnetd": "",
    "/usr/sbin/in.rshd": "",
    "/usr/sbin/in.tftpd": "",
    "/usr/sbin/xinetd": "",
    "/usr/sbin/ypserv": "",
}
GOOD_APT = GOOD_BASE | {
    "/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";',
    "/sys/module/apparmor/parameters/enabled": "Y",
    "/etc/ufw/ufw.conf": "ENABLED=yes",
}
BAD_APT = BAD_BASE | {
    "/etc/apt/apt.conf.d/99own": 'APT::Get::AllowUnauthenticated "true";',
    "/etc/default/apport": "enabled=1",
}
MASKED = {"systemctl is-enabled ctrl-alt-del.target": "masked", "systemctl is-enabled nftables": "enabled"}
RUNNING = frozenset({"auditd", "chronyd", "firewalld"})
GOOD_RHEL = GOOD_BASE | {
    "/etc/os-release": 'NAME="Rocky Linux"\nID="rocky"',
    "/etc/dnf/dnf.conf": "gpgcheck=1",
    "/etc/yum.repos.d/base.repo": "gpgcheck=1",
    "/etc/dnf/automatic.conf": "apply_updates = yes",
    "/etc/selinux/config": "SELINUX=enforcing",
    "/sys/fs/selinux/enforce": "1",
    "/etc/crypto-policies/config": "DEFAULT",
}
BAD_RHEL = BAD_BASE | {
    "/etc/os-release": 'ID="centos"',
    "/etc/yum.repos.d/own.repo": "gpgcheck=0",
    "/etc/selinux/config": "SELINUX=permissive",
    "/etc/crypto-policies/config": "LEGACY",
}
NGINX = "/etc/nginx/nginx.conf"
GOOD_NGINX = """user www-data;
http {
    server_tokens off;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_ciphers HIGH:!aNULL:!MD5;
    error_log /var/log/nginx/error.log;
    add_header Strict-Transport-Security "max-age=31536000" always;
    add_header X-Frame-Options SAMEORIGIN;
    add_header X-Content-Type-Options "nosniff";
    client_max_body_size 10m;
"""
BAD_NGINX = """user root;
    autoindex on;
    ssl_protocols TLSv1 TLSv1.2;
    ssl_ciphers HIGH:RC4-SHA;
    access_log off;
    client_max_body_size 0;
"""
GOOD_APACHE = """ServerTokens Prod
TraceEnable Off
Options -Indexes +FollowSymLinks
SSLProtocol -all +TLSv1.2 +TLSv1.3
Timeout 60
CustomLog /var/log/access.log combined
Header always set Strict-Transport-Security "max-age=31536000"
"""
BAD_APACHE = """ServerTokens OS
ServerSignature On
TraceEnable On
Options Indexes FollowSymLinks
SSLProtocol all -SSLv3
SSLCompression on
Timeout 300
ExtendedStatus On
Dav On
"""
GOOD_POSTGRESQL = """listen_addresses = 'localhost'
ssl = on
ssl_min_protocol_version = 'TLSv1.2'
password_encryption = scram-sha-256
log_connections = on
log_disconnections = on
log_statement = 'ddl'
log_line_prefix = '%m [%p] %q%u@%d '
"""
BAD_POSTGRESQL = """listen_addresses = '*'
ssl = off
ssl_min_protocol_version = 'TLSv1.1'
password_encryption = md5
"""
GOOD_HBA = "local all postgres peer\nhost all all 10.0.0.0/8 scram-sha-256"
BAD_HBA = "local all all trust\nhost all all 0.0.0.0/0 password"
GOOD_MARIADB = """bind-address = 127.0.0.1
local_infile = 0
ssl_cert = /etc/mysql/cert.pem
tls_version = TLSv1.2,TLSv1.3
user = mysql
secure_file_priv = /var/lib/mysql-files
log_error = /var/log/mysql/error.log
"""
BAD_MARIADB = """bind-address = 0.0.0.0
skip-grant-tables
tls_version = TLSv1.1
user = root
old_passwords = 1
password = secret
symbolic-links = 1
"""
GOOD_DOCKER = """{"icc": false,
 "userns-remap": "default",
 "no-new-privileges": true,
 "live-restore": true,
 "userland-proxy": false,
 "insecure-registries": [],
 "log-opts": {"max-size": "10m", "max-file": "3"}}"""
BAD_DOCKER = """{"insecure-registries": ["10.0.0.1:5000"],
 "hosts": ["tcp://0.0.0.0:2375"],
 "log-level": "fatal",
 "experimental": true}"""


def _postgresql(settings: str, access: str) -> Host:
    folder = "/etc/postgresql/15/main"
    return Host({f"{folder}/postgresql.conf": settings, f"{folder}/pg_hba.conf": access})


def _kernel(values: dict[str, str], modules: str) -> Host:
    parameters = {f"/proc/sys/{name}": value for name, value in values.items()}
    return Host({**parameters, "/proc/sys/kernel/ostype": "Linux", "/etc/modprobe.d/own.conf": modules})


GOOD = {
    "sshd": Host({SSHD: GOOD_SSHD}),
    "kernel": _kernel(GOOD_KERNEL, MODULES),
    "accounts": Host(GOOD_ACCOUNTS),
    "debian": Host(GOOD_APT | {"/etc/os-release": "ID=debian"}, MASKED, RUNNING),
    "ubuntu": Host(GOOD_APT | {"/etc/os-release": "ID=ubuntu"}, MASKED, RUNNING),
    "rhel": Host(GOOD_RHEL, MASKED, RUNNING),
    "nginx": Host({NGINX: GOOD_NGINX}),
    "apache_debian": Host({"/etc/apache2/apache2.conf": GOOD_APACHE}),
    "apache_rhel": Host({"/etc/httpd/conf/httpd.conf": GOOD_APACHE}),
    "postgresql": _postgresql(GOOD_POSTGRESQL, GOOD_HBA),
    "mariadb": Host({"/etc/mysql/mariadb.conf.d/50-server.cnf": GOOD_MARIADB}),
    "docker": Host({"/etc/docker/daemon.json": GOOD_DOCKER}, {}, frozenset({"dockerd"})),
}
BAD = {
    "sshd": [Host({SSHD: BAD_SSHD})],
    "kernel": [_kernel({name: "9" if value == "0" else "0" for name, value in GOOD_KERNEL.items()}, "")],
    "accounts": [Host(BAD_ACCOUNTS)],
    "debian": [Host(BAD_APT | {"/etc/os-release": "ID=debian"})],
    "ubuntu": [Host(BAD_APT | {"/etc/os-release": "ID=ubuntu"})],
    "rhel": [Host(BAD_RHEL)],
    "nginx": [Host({NGINX: BAD_NGINX}), Host({NGINX: ""})],
    "apache_debian": [Host({"/etc/apache2/apache2.conf": BAD_APACHE}), Host({"/etc/apache2/apache2.conf": ""})],
    "apache_rhel": [Host({"/etc/httpd/conf/httpd.conf": BAD_APACHE}), Host({"/etc/httpd/conf/httpd.conf": ""})],
    "postgresql": [_postgresql(BAD_POSTGRESQL, BAD_HBA)],
    "mariadb": [Host({"/etc/mysql/my.cnf": BAD_MARIADB})],
    "docker": [Host({"/etc/docker/daemon.json": BAD_DOCKER}), Host({}, {}, frozenset({"dockerd"}))],
}
"""A check must fail on one of the hosts at least."""
