"""Agents find the three endpoints as tools, and get the same answers as other programs."""

import asyncio
from importlib.util import find_spec
from typing import Any

import pytest
from sample_traces import coin_trace
from serving import RECITING, served

from specguard_core.trace_io import to_json

pytestmark = pytest.mark.skipif(
    find_spec("mcp") is None, reason="no mcp package: pip install 'gradio[mcp]==6.31.0' to run this"
)
TRACE = to_json(coin_trace())


async def asked(address: str, calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[Any], Any]:
    """The answers to some calls of tools, and the tools there are."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with (
        streamable_http_client(f"{address}/gradio_api/mcp/") as (reading, writing, _),
        ClientSession(reading, writing) as client,
    ):
        await client.initialize()
        tools = (await client.list_tools()).tools
        return [await client.call_tool(*call) for call in calls], tools


def test_an_agent_lists_the_tools_and_judges_a_trace_again():
    calls = [
        ("regate", {"trace": TRACE, "settings": ["threshold=1.01"]}),
        ("explain_step", {"trace": TRACE, "step": 3}),
        ("regate", {"trace": {}, "settings": []}),
    ]
    with served(RECITING, "--mcp") as server:
        (flipped, explained, refused), tools = asyncio.run(asked(server.address, calls))
    assert {tool.name for tool in tools} == {"run_trace", "regate", "explain_step"}
    regate = next(tool for tool in tools if tool.name == "regate")
    assert regate.description
    assert regate.inputSchema["required"] == ["trace", "settings"]
    assert all(field["description"] for field in regate.inputSchema["properties"].values())
    assert "'first_flip': 0" in flipped.content[0].text
    assert "Refused: 0.409 is 0.291 short of 0.700" in explained.content[0].text
    assert refused.isError
    assert refused.content[0].text.startswith("expected a file with a kind out of")
