"""Chat templates with the features of each family's own."""

# ChatML turns; enable_thinking=false writes an empty reasoning trace, and the last reply of a conversation has one.
QWEN3 = """\
{%- for message in messages %}
    {{- "<|im_start|>" + message["role"] + "\\n" }}
    {{- "<think>\\n\\n</think>\\n\\n" if loop.last and message["role"] == "assistant" else "" }}
    {{- message["content"] + "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\\n" }}
    {{- "<think>\\n\\n</think>\\n\\n" if enable_thinking is defined and enable_thinking is false else "" }}
{%- endif %}
"""

# Prints BOS and today's date, unless date_string is given; a system turn is always there.
LLAMA3_2 = """\
{{- bos_token }}
{%- if date_string is not defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- set instruction = "" %}
{%- set turns = messages %}
{%- if messages[0]["role"] == "system" %}
    {%- set instruction = messages[0]["content"] | trim %}
    {%- set turns = messages[1:] %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Knowledge ends: December 2023\\nToday Date: " + date_string + "\\n\\n" + instruction + "<|eot_id|>" }}
{%- for turn in turns %}
    {{- "<|start_header_id|>" + turn["role"] + "<|end_header_id|>\\n\\n" + turn["content"] | trim + "<|eot_id|>" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}
{%- endif %}
"""

# Prints BOS; the assistant is "model", and there is no system turn: its text goes before the first user turn's.
GEMMA3 = """\
{{- bos_token }}
{%- set instruction = "" %}
{%- set turns = messages %}
{%- if messages[0]["role"] == "system" %}
    {%- set instruction = messages[0]["content"] + "\\n\\n" %}
    {%- set turns = messages[1:] %}
{%- endif %}
{%- for turn in turns %}
    {%- if (turn["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("user and assistant turns must alternate") }}
    {%- endif %}
    {{- "<start_of_turn>" + ("model" if turn["role"] == "assistant" else turn["role"]) + "\\n" }}
    {{- (instruction if loop.first else "") + turn["content"] | trim + "<end_of_turn>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<start_of_turn>model\\n" }}
{%- endif %}
"""

# Harmony: a system message with the machine's date and the reasoning effort, instructions in a developer message,
# and channels; the last reply ends in <|return|>, earlier ones in <|end|>.
GPT_OSS = """\
{{- "<|start|>system<|message|>A language model.\\nCurrent date: " + strftime_now("%Y-%m-%d") }}
{{- "\\n\\nReasoning: " + (reasoning_effort if reasoning_effort is defined else "medium") }}
{{- "\\n\\n# Valid channels: analysis, commentary, final.<|end|>" }}
{%- set turns = messages %}
{%- if messages[0]["role"] in ["system", "developer"] %}
    {{- "<|start|>developer<|message|># Instructions\\n\\n" + messages[0]["content"] + "<|end|>" }}
    {%- set turns = messages[1:] %}
{%- endif %}
{%- for turn in turns %}
    {%- if turn["role"] == "assistant" %}
        {{- "<|start|>assistant<|channel|>final<|message|>" + turn["content"] }}
        {{- "<|return|>" if loop.last and not add_generation_prompt else "<|end|>" }}
    {%- else %}
        {{- "<|start|>" + turn["role"] + "<|message|>" + turn["content"] + "<|end|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|start|>assistant" }}
{%- endif %}
"""
