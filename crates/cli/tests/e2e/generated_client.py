"""Runs a task end to end with a client that openapi-python-client generated from the document.

    generated_client.py URL TOKEN DIRECTORY      (the client is the package `ostler_client`)
"""

import json
import sys
import time

from ostler_client import AuthenticatedClient
from ostler_client.api.default import (
    delete_runs_run,
    get_approvals,
    get_quotas,
    get_runs,
    get_runs_run,
    get_runs_run_events,
    get_tasks,
    get_tasks_task,
    get_tokens,
    post_approvals_approval_answer,
    post_runs,
    post_tasks,
    post_tasks_task_approve,
    post_tokens,
    post_tokens_token_revoke,
)
from ostler_client.models import (
    ApprovalAnswer,
    NewTask,
    Policy,
    Problem,
    RunRequest,
    Scope,
    TaskDecision,
    TokenRequest,
)


def until(what, look):
    for _ in range(600):
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"waited in vain for {what}")


url, token, directory = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)

# A run that asks: start it, answer it, follow it to its end.
request = RunRequest(
    agent="demo", prompt="ask me", cwd=directory, permission=Policy.ASK, attended=True
)
started = post_runs.sync(client=client, body=request)
run = started.run_id
approval = until("an approval", lambda: get_approvals.sync(client=client).items)[0]
assert approval.run_id == run, approval
answered = post_approvals_approval_answer.sync_detailed(
    approval.approval_id, client=client, body=ApprovalAnswer(option="allow")
)
assert answered.status_code == 202, answered
until(
    "the end of the run",
    lambda: get_runs_run.sync(run, client=client).to_dict()["state"] == "settled",
)
events = get_runs_run_events.sync_detailed(run, client=client).content.decode()
events = [json.loads(line) for line in events.splitlines() if line]
assert events[-1]["kind"] == "result" and events[-1]["outcome"] == "succeeded", events[-1]

# A task: add it, wait for its review, approve it.
task = post_tasks.sync(client=client, body=NewTask(title="hello", agent="demo", cwd=directory))
until(
    "the review",
    lambda: get_tasks_task.sync(task.task_id, client=client).to_dict()["state"] == "review",
)
approved = post_tasks_task_approve.sync(task.task_id, client=client, body=TaskDecision())
assert approved.to_dict()["state"] == "done", approved

# Lists, with filters and pages.
page = get_runs.sync(client=client, agent="demo", limit=1)
assert len(page.items) == 1 and page.next_, page
assert run in [one.run_id for one in get_runs.sync(client=client).items]
assert task.task_id in [one.task_id for one in get_tasks.sync(client=client).items]
assert get_quotas.sync(client=client).items == []

# Tokens, and what has no body.
given = post_tokens.sync(client=client, body=TokenRequest(name="short", scope=Scope.VIEWER))
assert [one.name for one in get_tokens.sync(client=client).items] == ["short"]
assert post_tokens_token_revoke.sync_detailed("short", client=client).status_code == 200
assert delete_runs_run.sync_detailed(run, client=client).status_code == 200
gone = get_runs_run.sync(run, client=client)
assert isinstance(gone, Problem) and gone.code == "not_found", gone
print("done")
