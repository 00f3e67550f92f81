from kvcliff.readers.sse import has_content, is_end_mark, usage_of


def test_text_reasoning_and_tool_calls_are_content() -> None:
    for delta in ('{"content":"a"}', '{"reasoning_content":"a"}', '{"tool_calls":[{"id":1}]}'):
        assert has_content(f'data: {{"choices":[{{"delta":{delta}}}]}}')
    assert has_content('{"choices":[{"text":"a"}]}')


def test_roles_ends_and_broken_events_are_none() -> None:
    for event in (
        '{"choices":[{"delta":{"role":"assistant","content":""}}]}',
        '{"choices":[]}',
        "[DONE]",
        "{",
        7,
    ):
        assert not has_content(event)


def test_usage_and_end_mark() -> None:
    assert usage_of('data: {"choices":[],"usage":{"prompt_tokens":7}}') == {"prompt_tokens": 7}
    assert usage_of('{"choices":[]}') == {}
    assert is_end_mark("data: [DONE]\n")
    assert is_end_mark("")
    assert not is_end_mark('{"choices":[]}')
