"""A worker that speaks the bare protocol, for what no SDK at hand sends: it can be a Go, a Java or a .NET worker."""

import queue
import threading
from typing import Any

import grpc
from durabletask.internal import orchestrator_service_pb2 as pb
from google.protobuf import timestamp_pb2, wrappers_pb2

from hub import PATIENCE_SECONDS, Hub

COMPLETED = pb.ORCHESTRATION_STATUS_COMPLETED
FAILED = pb.ORCHESTRATION_STATUS_FAILED


def text(value: str | None) -> wrappers_pb2.StringValue | None:
    return None if value is None else wrappers_pb2.StringValue(value=value)


def complete(number: int, result: str | None = None, status: int = COMPLETED, **more: Any) -> pb.OrchestratorAction:
    done = pb.CompleteOrchestrationAction(orchestrationStatus=status, result=text(result), **more)
    return pb.OrchestratorAction(id=number, completeOrchestration=done)


def schedule(number: int, name: str, input: str | None = None, **more: Any) -> pb.OrchestratorAction:
    return pb.OrchestratorAction(id=number, scheduleTask=pb.ScheduleTaskAction(name=name, input=text(input), **more))


def timer(number: int, fire_at: timestamp_pb2.Timestamp) -> pb.OrchestratorAction:
    return pb.OrchestratorAction(id=number, createTimer=pb.CreateTimerAction(fireAt=fire_at))


def child(number: int, name: str, instance: str = "") -> pb.OrchestratorAction:
    return pb.OrchestratorAction(
        id=number, createSubOrchestration=pb.CreateSubOrchestrationAction(instanceId=instance, name=name)
    )


def kinds(events: Any) -> list[str]:
    return [event.WhichOneof("eventType") for event in events]


def begin(hub: Hub, instance: str = "raw", **more: Any) -> str:
    """Starts an orchestration for a raw worker."""
    return hub.stub().StartInstance(pb.CreateInstanceRequest(instanceId=instance, name="Raw", **more)).instanceId


class Raw:
    """One stream of work items. Nothing is answered unless the test says so, and no Hello is ever sent."""

    def __init__(self, hub: Hub, **request: Any):
        self.stub = hub.stub()
        self._call = self.stub.GetWorkItems(pb.GetWorkItemsRequest(**request), timeout=None)
        self._items: queue.Queue[pb.WorkItem] = queue.Queue()
        self.pings = 0
        self.ended = threading.Event()
        self.code: grpc.StatusCode | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for item in self._call:
                if item.HasField("healthPing"):
                    self.pings += 1
                else:
                    self._items.put(item)
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.code = error.code()
        self.ended.set()

    def item(self, seconds: float = PATIENCE_SECONDS) -> pb.WorkItem:
        """The next work item."""
        try:
            return self._items.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"no work item within {seconds} s") from None

    def orchestrator(self, instance: str | None = None) -> pb.WorkItem:
        found = self.item()
        assert found.HasField("orchestratorRequest"), found
        assert instance in (None, found.orchestratorRequest.instanceId), found
        return found

    def activity(self) -> pb.WorkItem:
        found = self.item()
        assert found.HasField("activityRequest"), found
        return found

    def waiting(self) -> int:
        """How many items have come that the test has not looked at."""
        return self._items.qsize()

    def answer(self, item: pb.WorkItem, *actions: pb.OrchestratorAction, **more: Any) -> None:
        """Completes a turn, with its token unless `completionToken` says otherwise."""
        more.setdefault("completionToken", item.completionToken)
        self.stub.CompleteOrchestratorTask(
            pb.OrchestratorResponse(instanceId=item.orchestratorRequest.instanceId, actions=actions, **more)
        )

    def done(self, item: pb.WorkItem, result: str | None = None, **more: Any) -> None:
        """Completes an activity."""
        request = item.activityRequest
        more.setdefault("completionToken", item.completionToken)
        self.stub.CompleteActivityTask(
            pb.ActivityResponse(
                instanceId=request.orchestrationInstance.instanceId, taskId=request.taskId, result=text(result), **more
            )
        )

    def abandon(self, item: pb.WorkItem) -> None:
        request = pb.AbandonOrchestrationTaskRequest(completionToken=item.completionToken)
        self.stub.AbandonTaskOrchestratorWorkItem(request)

    def close(self) -> None:
        """Goes away without a word, as a worker that has crashed."""
        self._call.cancel()
        assert self.ended.wait(PATIENCE_SECONDS)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
