"""The receiver of gunicorn (`wsgi`) and of uvicorn (`asgi`)."""


def wsgi(environ, start_response):
    environ["wsgi.input"].read()
    start_response("204 No Content", [])
    return []


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})
