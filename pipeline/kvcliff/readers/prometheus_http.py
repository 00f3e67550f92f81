"""Asking a Prometheus server (or one that speaks its query API) over HTTP, without saying a secret aloud."""

import base64
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, Final
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from kvcliff.errors import InputError, UsageProblem

_BLOCK_BYTES: Final = 1 << 20
#: An answer about names and states is small; more than this is no such answer.
_SMALL_ANSWER_BYTES: Final = 64 << 20
_ERROR_BYTES: Final = 4096
_ERROR_TEXT_LIMIT: Final = 200
_SUCCESS: Final = b'{"status":"success"'
_GOOD_STATUS: Final = 200
_DENIED: Final = (401, 403)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class PrometheusServer:
    """Where to ask, and with which credentials; the credentials never enter a message or a ``repr``.

    Attributes:
        base_url: address without credentials, query and trailing slash.
        headers: what is sent with every request.
        timeout_s: seconds that a silent server is waited for.
    """

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0

    @classmethod
    def at(
        cls, url: str, *, token: str | None = None, headers: Mapping[str, str] | None = None, timeout_s: float
    ) -> "PrometheusServer":
        """Return the server at a URL; a user and password in the URL become a header.

        Args:
            url: ``http`` or ``https`` address, with a path when the API does not lie at its root.
            token: bearer token, or ``None``.
            headers: further headers to send.
            timeout_s: seconds that a silent server is waited for.

        Raises:
            UsageProblem: the URL is none, or has another scheme.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as exc:
            raise UsageProblem(
                "the address of the Prometheus server is no URL", hint="for example: http://prometheus:9090"
            ) from exc
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageProblem(
                "the address of the Prometheus server must begin with http:// or https://",
                hint="for example: http://prometheus:9090",
            )
        sent = dict(headers or {})
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            sent["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if not all(name.isascii() and (name + value).isprintable() for name, value in sent.items()):
            raise UsageProblem(
                "a token or header for the Prometheus server holds a line end or a control character",
                hint="give it without the line end of its file",
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        place = host if port is None else f"{host}:{port}"
        return cls(urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")), sent, timeout_s)

    def ask(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the ``data`` of a small answer.

        Raises:
            InputError: the server cannot be reached, refuses, or answers with something else.
        """
        with self._open(path, parameters) as answer:
            body = self._read(answer, _SMALL_ANSWER_BYTES + 1)
        if len(body) > _SMALL_ANSWER_BYTES:
            raise self._no_prometheus(path)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise self._no_prometheus(path) from exc
        if not isinstance(document, dict) or document.get("status") != "success":
            raise self._no_prometheus(path)
        return document.get("data")

    def copy(self, path: str, parameters: Mapping[str, str], target: BinaryIO) -> int:
        """Copy an answer to ``target`` as it comes, end its line, and return its size in bytes.

        Raises:
            InputError: the server cannot be reached, refuses, or the answer is none or is cut.
        """
        size, start, tail = 0, b"", b""
        with self._open(path, parameters) as answer:
            while block := self._read(answer, _BLOCK_BYTES):
                if size < len(_SUCCESS):
                    start = (start + block)[: len(_SUCCESS)]
                    if not _SUCCESS.startswith(start):
                        raise self._no_prometheus(path)
                size += len(block)
                tail = (tail + block)[-16:]
                target.write(block)
        if start != _SUCCESS or not tail.rstrip().endswith(b"}"):
            raise InputError(
                f"the answer of {self.base_url}{path} is cut after {size} bytes",
                hint="try again with a shorter window or a longer --prometheus-timeout",
            )
        target.write(b"\n")
        return size

    def _open(self, path: str, parameters: Mapping[str, str]) -> http.client.HTTPResponse:
        """Return the open answer of the API.

        Raises:
            InputError: the server cannot be reached or refuses.
        """
        body = urlencode(parameters)
        # The scheme was checked when the server was named.
        request = urllib.request.Request(
            f"{self.base_url}{path}?{body}", headers={**self.headers, "Accept": "application/json"}
        )
        try:
            answer: http.client.HTTPResponse = self._opener().open(request, timeout=self.timeout_s)
        except urllib.error.HTTPError as exc:
            with exc:
                raise self._refused(path, exc.code, _api_error(exc)) from exc
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as exc:
            raise self._unreachable(exc) from exc
        if answer.status != _GOOD_STATUS:
            answer.close()
            raise self._refused(path, answer.status, "")
        return answer

    def _opener(self) -> urllib.request.OpenerDirector:
        """Return an opener that follows no redirect: credentials would follow it too."""
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if urlsplit(self.base_url).hostname in _LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(*handlers)

    def _read(self, answer: http.client.HTTPResponse, size: int) -> bytes:
        """Return the next bytes of an answer.

        Raises:
            InputError: the connection broke.
        """
        try:
            return answer.read(size)
        except (http.client.HTTPException, OSError) as exc:
            raise self._unreachable(exc) from exc

    def _unreachable(self, problem: BaseException) -> InputError:
        reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
        if isinstance(reason, TimeoutError):
            return InputError(
                f"{self.base_url} did not answer within {self.timeout_s:g} s",
                hint="give it longer (--prometheus-timeout) or ask for a shorter window",
            )
        words = os.strerror(reason.errno) if isinstance(reason, OSError) and reason.errno else None
        return InputError(
            f"cannot ask {self.base_url}: {words or type(reason).__name__}",
            hint="check the address, and the certificate of an https server (SSL_CERT_FILE names another CA)",
        )

    def _refused(self, path: str, status: int, said: str) -> InputError:
        if status in _DENIED:
            hint = "give a token in the environment (see --prometheus-token) or --prometheus-headers FILE"
        elif 300 <= status < 400:
            hint = "it sends to another address; give that one to --prometheus"
        else:
            hint = "shorten the window, or ask for one value per --step seconds"
        said = f": {said}" if said else ""
        return InputError(f"{self.base_url}{path} refused with HTTP {status}{said}", hint=hint)

    def _no_prometheus(self, path: str) -> InputError:
        return InputError(
            f"{self.base_url}{path} answers, but not as the Prometheus query API does",
            hint="give the address under which /api/v1/query lies, with its path",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which urllib would follow with all headers."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Return no request, so that the redirect becomes an error."""


def _api_error(answer: urllib.error.HTTPError) -> str:
    """Return what the API says about an error, cut and printable; empty for anything else."""
    try:
        document = json.loads(answer.read(_ERROR_BYTES))
    except (ValueError, RecursionError, OSError, http.client.HTTPException):
        return ""
    said = document.get("error") if isinstance(document, dict) else None
    text = said if isinstance(said, str) else ""
    return "".join(char for char in text if char.isprintable())[:_ERROR_TEXT_LIMIT]
