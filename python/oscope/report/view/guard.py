"""Who may read: requests with the token, made to this machine's own address, that change nothing.

The token comes once in the address, then in a cookie: so it stays out of links, of the browser's history and
of what other pages see. The Host header is checked since a page of another site may have its name resolve to
127.0.0.1 (DNS rebinding) and would then be allowed to read the answers.
"""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADDRESS = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Nothing comes from elsewhere. Plotly writes style elements as it draws, so inline style is allowed."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REFUSED = "403: this page needs the address with the token that oscope view printed.\n"


class Guard:
    """Lets only such requests reach the application, and sets the headers that keep a page to itself."""

    def __init__(self, application: ASGIApp, token: str, port: int) -> None:
        """Guard `application`, which is reached at `port` of this machine, by `token`."""
        self._application = application
        self._token = token
        self._hosts = {f"{ADDRESS}:{port}", f"localhost:{port}"} | (
            {ADDRESS, "localhost"} if port == 80 else set()
        )
        # A cookie is of a host, whatever the port: two servers must not take each other's.
        self._cookie = f"oscope_view_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            # No websockets; `lifespan` is switched off.
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(Request(scope))
        await (answer or self._application)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """Return the answer to what goes no further; None for what may pass."""
        if request.headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("421: wrong host.\n", 421)
        given = request.query_params.get("token")
        if not self._is_token(request.cookies.get(self._cookie)) and not self._is_token(given):
            return PlainTextResponse(REFUSED, 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("405: this application only reads.\n", 405, {"Allow": "GET, HEAD"})
        return None if given is None else self._enter(request)

    def _is_token(self, text: str | None) -> bool:
        return text is not None and secrets.compare_digest(text.encode(), self._token.encode())

    def _enter(self, request: Request) -> Response:
        """Put the token into a cookie, and lead to the same page without it."""
        # Only a path and query of this server: "//host" would lead elsewhere.
        page = request.url.remove_query_params("token")
        path = "/" + page.path.lstrip("/")
        answer = RedirectResponse(f"{path}?{page.query}" if page.query else path, 303)
        if self._is_token(request.query_params.get("token")):
            # Lax: the first visit comes from a file or a terminal, which is another site.
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="lax")
        return answer
