"""A consumer's connection: reads frames, makes calls, and writes responses once per turn."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from floodmark.service.call import Call, enter_call
from floodmark.service.dispatch import Prepared, java_exception, prepare
from floodmark.service.dubbo.frames import (
    EVENT,
    HESSIAN2,
    REQUEST,
    SERIALIZATION_MASK,
    TWO_WAY,
    Frame,
    FrameError,
    Frames,
    Status,
    heartbeat,
    heartbeat_answer,
    readonly_event,
)
from floodmark.service.dubbo.requests import Request, Requests
from floodmark.service.dubbo.responses import error_frame, exception_frame, result_frame
from floodmark.service.errors import RpcError
from floodmark.service.hessian import HessianError
from floodmark.service.invoker import Invoker, NoSuchMethod, Runs, contained
from floodmark.service.server import ServedConnection

if TYPE_CHECKING:
    from floodmark.service.dubbo.server import DubboServer

MAX_CALLS_OF_CONNECTION = 4_000
"""Calls in progress per connection. Above it we stop reading until half of them are done."""

TURN_BYTES = 1024 * 1024
"""After this many bytes of responses, further requests wait for the next loop iteration: by then we
know whether the consumer reads. A request is some hundred bytes, a response up to 8 MB."""


class Connection(ServedConnection):
    """A consumer."""

    def __init__(self, server: DubboServer) -> None:
        super().__init__()
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._requests = Requests(server.classes_of)
        self._waiting: deque[Frame] = deque()
        """Received requests that have not been started."""
        self._buffered_bytes = 0
        self._frame_began: float | None = None
        self._out: list[bytes | bytearray] = []
        self._turn_bytes = 0
        self._flush_is_due = False
        self._calls = 0
        self._is_paused = False
        self._is_full = False
        self._full_since = 0.0
        self._last_read = self._last_written = self._loop.time()
        self._event_id = 0
        self._tasks: set[asyncio.Task[None]] = set()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._is_accepted(transport, self._server)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._waiting.clear()
        self._note_buffered(0)
        self._server.closed(self)

    def pause_writing(self) -> None:
        """The consumer does not read its responses, so it gets no more."""
        self._is_full = True
        self._full_since = self._loop.time()
        self._pace()

    def resume_writing(self) -> None:
        self._is_full = False
        self._serve()

    def data_received(self, data: bytes) -> None:
        self._last_read = self._loop.time()
        try:
            complete = self._frames.feed(data)
        except FrameError as error:
            self._server.warn("frame", f"closed {self.remote_address}: {error}")
            self.close()
            return
        if complete:
            self._waiting.extend(complete)
            self._frame_began = None  # what is left belongs to the next request
        self._note_buffered(self._frames.unfinished_bytes)
        if self._server.is_overfull():
            text = "too many bytes of unfinished requests"
            self._server.warn("unfinished", f"closed {self.remote_address}: {text}")
            self.close()
            return
        self._serve()

    def _note_buffered(self, size: int) -> None:
        """How much of an incomplete request has arrived."""
        if not size:
            self._frame_began = None
        elif self._frame_began is None:
            self._frame_began = self._last_read
        self._server.buffered_bytes += size - self._buffered_bytes
        self._buffered_bytes = size

    def _serve(self) -> None:
        """Works on received requests. Responses of this turn go out at its end, in one write."""
        self._flush_is_due = True
        self._turn_bytes = 0
        waiting = self._waiting
        try:
            while waiting and not self._must_wait():
                flags, _status, request_id, body = waiting.popleft()
                if not flags & REQUEST:
                    continue  # a response to our heartbeat
                if flags & EVENT:
                    self._event(flags, request_id)
                else:
                    self._request(flags, request_id, body)
                if self._turn_bytes > TURN_BYTES and waiting:
                    self._loop.call_soon(self._serve)
                    break
        finally:
            self._flush()
        if waiting or self._is_paused:
            self._pace()

    # Requests

    def _event(self, flags: int, request_id: int) -> None:
        if flags & TWO_WAY:
            self._out.append(heartbeat_answer(request_id))

    def _request(self, flags: int, request_id: int, body: bytes) -> None:
        is_two_way = bool(flags & TWO_WAY)
        try:
            if flags & SERIALIZATION_MASK != HESSIAN2:
                raise HessianError(f"serialization {flags & SERIALIZATION_MASK} is not supported")
            request = self._requests.read(body)
        except HessianError as error:
            self._refuse(is_two_way, request_id, Status.BAD_REQUEST, _decode_failure(error))
            return
        prefix = request.prefix
        group = request.attachments.get("group") or ""
        version = request.attachments.get("version") or prefix.version
        invoker = self._server.find(prefix.path, group, version)
        if invoker is None:
            text = (
                f"Not found exported service: {prefix.path} (group {group!r}, version {version!r})"
            )
            self._refuse(is_two_way, request_id, Status.SERVICE_ERROR, _remoting_failure(text))
            return
        self._invoke(invoker, request, request_id, is_two_way)

    def _invoke(
        self, invoker: Invoker, request: Request, request_id: int, is_two_way: bool
    ) -> None:
        method = request.prefix.method
        invoker.last_call = self._last_read
        call = Call(method, request.attachments, self.remote_address)
        reply = _Reply(
            self, invoker, request_id, request.prefix.takes_attachments, call, is_two_way
        )
        try:
            prepared = prepare(invoker, method, request.arguments, request.attachments)
            if not self._server.may_begin():
                raise RpcError("the provider has too many calls in progress")
            handle = prepared.handle
            if handle is None:
                reply.result(prepared, prepared.arguments[0])
                return
            handle.begin()
        except (NoSuchMethod, HessianError) as error:
            self._refuse(is_two_way, request_id, Status.BAD_REQUEST, _decode_failure(error))
            return
        except RpcError as error:
            reply.exception(error, is_generic=False)
            return
        if handle.runs is Runs.INLINE:
            began = self._loop.time() if handle.timeout_seconds else 0.0
            enter_call(call)
            try:
                value = handle.function(*prepared.arguments)
            except Exception as error:  # noqa: BLE001 - goes to the caller, as the method's outcome
                reply.exception(error, is_generic=prepared.is_generic)
            else:
                reply.result(prepared, value)
            finally:
                handle.end()
                if began:
                    self._server.note_duration(handle, self._loop.time() - began)
        else:
            self._begin(prepared, reply)

    def _begin(self, prepared: Prepared, reply: _Reply) -> None:
        """Starts a call that continues after this turn."""
        server = self._server
        handle = prepared.handle
        assert handle is not None
        in_thread = handle.runs is Runs.IN_A_THREAD
        if in_thread and server.calls_in_threads >= server.max_threads:
            handle.end()
            text = (
                f"Server side thread pool is exhausted, {server.max_threads} calls are in progress"
            )
            self._refuse(
                reply.is_two_way, reply.request_id, Status.SERVER_THREADPOOL_EXHAUSTED, text
            )
            return
        # Counted now, not when it runs: many calls may begin in one turn.
        server.calls_in_threads += in_thread
        server.begun()
        self._calls += 1
        self._pace()
        run = self._run_in_thread if in_thread else self._run_on_loop
        task = self._loop.create_task(run(prepared, reply, self._loop.time()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_on_loop(self, prepared: Prepared, reply: _Reply, began: float) -> None:
        handle = prepared.handle
        assert handle is not None
        enter_call(reply.call)
        try:
            value = await handle.function(*prepared.arguments)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the method's outcome
            reply.exception(error, is_generic=prepared.is_generic)
        else:
            reply.result(prepared, value)
        finally:
            self._end(prepared, began)

    async def _run_in_thread(self, prepared: Prepared, reply: _Reply, began: float) -> None:
        handle, server = prepared.handle, self._server
        assert handle is not None
        enter_call(reply.call)
        context = copy_context()
        try:
            value = await self._loop.run_in_executor(
                server.threads, context.run, contained, handle.function, *prepared.arguments
            )
        except Exception as error:  # noqa: BLE001 - goes to the caller, as the method's outcome
            reply.exception(error, is_generic=prepared.is_generic)
        else:
            reply.result(prepared, value)
        finally:
            server.calls_in_threads -= 1
            self._end(prepared, began)

    def _end(self, prepared: Prepared, began: float) -> None:
        assert prepared.handle is not None
        prepared.handle.end()
        self._server.note_duration(prepared.handle, self._loop.time() - began)
        self._calls -= 1
        self._server.ended()
        if self._waiting and not self._must_wait():
            self._serve()
        else:
            self._pace()

    # Writing

    def send(self, data: bytes | bytearray) -> None:
        """Sent together with everything else of this turn."""
        self._out.append(data)
        self._turn_bytes += len(data)
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _refuse(self, is_two_way: bool, request_id: int, status: Status, text: str) -> None:
        self._server.warn(f"{status} {text}", f"refused a call of {self.remote_address}: {text}")
        if is_two_way:
            self.send(error_frame(request_id, status, text))

    def _flush(self) -> None:
        self._flush_is_due = False
        out, self._out = self._out, []
        if self._transport is None or not out:
            return
        self._last_written = self._loop.time()
        self._transport.write(b"".join(out) if len(out) > 1 else out[0])

    def _pace(self) -> None:
        """Resumes or pauses reading."""
        if self._transport is None or self._transport.is_closing():
            return
        must_pause = self._must_wait() or bool(self._waiting)
        if must_pause and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        elif self._is_paused and not must_pause:
            self._is_paused = False
            self._transport.resume_reading()

    def _must_wait(self) -> bool:
        limit = MAX_CALLS_OF_CONNECTION // 2 if self._is_paused else MAX_CALLS_OF_CONNECTION
        return self._is_full or self._calls > limit

    def keep_alive(self, now: float, heartbeat_seconds: float, missed: int) -> None:
        """Sends a heartbeat to a silent consumer.

        Closes it after `missed` heartbeats without a response, or as long without the rest of a
        request, or without room for our responses.
        """
        patience = heartbeat_seconds * missed
        if self._is_full and now - self._full_since > patience:
            self._server.warn("unread", f"closed {self.remote_address}: it reads no responses")
            self.abort()
        elif self._frame_began is not None and now - self._frame_began > patience:
            self._server.warn("slow", f"closed {self.remote_address}: a request takes too long")
            self.close()
        elif now - self._last_read > patience and not self._is_paused:
            self._server.warn("silent", f"closed {self.remote_address}: silent for too long")
            self.abort()
        elif max(now - self._last_read, now - self._last_written) > heartbeat_seconds:
            self._event_id += 1
            self.send(heartbeat(self._event_id))

    def say_goodbye(self) -> None:
        self._event_id += 1
        self.send(readonly_event(self._event_id))

    def close(self) -> None:
        """Closes after everything already written is sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()


class _Reply:
    """The receiver of one call's outcome."""

    __slots__ = ("_connection", "_has_attachments", "_invoker", "call", "is_two_way", "request_id")

    def __init__(
        self,
        connection: Connection,
        invoker: Invoker,
        request_id: int,
        has_attachments: bool,
        call: Call,
        is_two_way: bool,
    ) -> None:
        self._connection = connection
        self._invoker = invoker
        self._has_attachments = has_attachments
        self.request_id = request_id
        self.call = call
        self.is_two_way = is_two_way

    def result(self, prepared: Prepared, value: Any) -> None:
        if not self.is_two_way:
            return
        try:
            if prepared.finish is not None:
                value = prepared.finish(value)
            data: bytes | bytearray = result_frame(
                self.request_id,
                value,
                prepared.write,
                self._invoker.classes,
                self.call.response_attachments,
                self._has_attachments,
            )
        except HessianError as error:
            data = self._failed(error)
        self._connection.send(data)

    def exception(self, error: BaseException, *, is_generic: bool) -> None:
        if not self.is_two_way:
            return
        classes = self._invoker.classes
        thrown = java_exception(error, self._invoker, is_generic=is_generic)
        try:
            data: bytes | bytearray = exception_frame(
                self.request_id,
                thrown,
                classes,
                self.call.response_attachments,
                self._has_attachments,
            )
        except HessianError as problem:
            data = self._failed(problem)
        self._connection.send(data)

    def _failed(self, error: HessianError) -> bytes:
        text = f"Failed to send response of {self.call.method}, cause: {error}"
        return error_frame(self.request_id, Status.BAD_RESPONSE, text)


def _decode_failure(error: Exception) -> str:
    return f"Fail to decode request due to: java.lang.IllegalArgumentException: {error}"


def _remoting_failure(text: str) -> str:
    return f"org.apache.dubbo.remoting.RemotingException: {text}"
