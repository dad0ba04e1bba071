"""The schema files are up to date, and the generator reads Go sources like kube-openapi."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case
from tools.schemas.__main__ import TARGET
from tools.schemas.gotypes import parse
from tools.schemas.layout import dump_kinds, dump_messages, dump_types
from tools.schemas.openapi import definitions
from tools.schemas.sources import Release, Source, download

GO = """
package v1

import "k8s.io/apimachinery/pkg/api/resource"

type Mode string

const ModeAll Mode = "All"

// +union
type Choice struct {
	// Which one.
	// +unionDiscriminator
	// +default=ref(ModeAll)
	Mode Mode `json:"mode,omitempty" protobuf:"bytes,1,opt,name=mode"`
	// All of them.
	// +optional
	All *Nothing `json:"all,omitempty" protobuf:"bytes,2,opt,name=all"`
}

type Nothing struct {
}

type Widget struct {
	// How many.
	Count int32 `json:"count" protobuf:"varint,1,opt,name=count"`
	Plain *Choice `json:"plain,omitempty" protobuf:"bytes,2,opt,name=plain"`
	// What it may take.
	// +optional
	Size *resource.Quantity `json:"size,omitempty" protobuf:"bytes,3,opt,name=size"`
}
"""
PREFIX = "io.k8s.api.example.v1"


@pytest.fixture
def schemas(tmp_path: Path) -> dict[str, Any]:
    meta = "\n".join(
        f'type {name} struct {{\n\t// A word.\n\tWord string `json:"word"`\n}}'
        for name in ("APIResourceList", "DeleteOptions", "Patch", "Status", "WatchEvent")
    )
    folder = "pkg/apis/meta/v1"
    texts = {
        "api": {"example/v1/types.go": GO},
        "apimachinery": {
            f"{folder}/types.go": f"package v1\n\n{meta}\n",
            f"{folder}/group_version.go": "package v1\n",
            f"{folder}/watch.go": "package v1\n",
        },
    }
    for module, files in texts.items():
        for name, text in files.items():
            (tmp_path / module / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / module / name).write_text(text)
    source = Source({module: tmp_path / module for module in texts})
    kind = {"group": "example", "kind": "Widget", "versions": ["v1"], "storageVersion": "v1"}
    return definitions(source, [kind])


def test_a_field_has_its_schema_and_its_go_type(schemas: dict[str, Any]) -> None:
    widget = schemas[f"{PREFIX}.Widget"]
    assert widget["properties"]["count"] == {
        "type": "integer",
        "format": "int32",
        "default": 0,
        "x-go": ["int32", ""],
    }
    assert widget["properties"]["size"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}],
        "x-go": ["resource.Quantity", "*e"],
    }
    assert widget["required"] == ["count"]
    gvk = {"group": "example", "kind": "Widget", "version": "v1"}
    assert widget["x-kubernetes-group-version-kind"] == [gvk]


def test_a_field_without_a_comment_is_a_plain_reference(schemas: dict[str, Any]) -> None:
    plain = schemas[f"{PREFIX}.Widget"]["properties"]["plain"]
    assert plain["$ref"] == f"#/components/schemas/{PREFIX}.Choice"
    assert "allOf" not in plain


def test_unions_and_defaults_that_name_a_constant_are_read(schemas: dict[str, Any]) -> None:
    choice = schemas[f"{PREFIX}.Choice"]
    assert choice["properties"]["mode"]["default"] == "All"
    union = {"discriminator": "mode", "fields-to-discriminateBy": {"all": "All"}}
    assert choice["x-kubernetes-unions"] == [union]
    assert schemas[f"{PREFIX}.Nothing"] == {"properties": {}, "type": "object"}


def test_validation_tags_are_read_in_their_order_with_those_of_a_named_type() -> None:
    text = """
// +enum
// +k8s:alpha(since: "1.36")=+k8s:enum
type Mode string

// +k8s:deepcopy-gen=true
// +k8s:supportsSubresource="/status"
type Widget struct {
	// +k8s:required
	// +k8s:alpha(since: "1.36")=+k8s:eachKey=+k8s:format=k8s-short-name
	// +optional
	Sizes map[string]Mode `json:"sizes" protobuf:"bytes,1,opt,name=sizes"`
}
"""
    types = parse("k8s.io/api/example/v1", text).types
    assert types["Mode"].rules == ["alpha(1.36): enum"]
    assert types["Widget"].rules == []
    assert types["Widget"].fields[0].rules == ["required", "alpha(1.36): eachKey: format=k8s-short-name"]


def test_quotes_and_comments_of_a_validation_tag_are_removed() -> None:
    text = """
type Widget struct {
	// +k8s:ifDisabled("Wide")=+k8s:forbidden
	// +k8s:maximum=10 # MaxWidth
	Width int32 `json:"width" protobuf:"varint,1,opt,name=width"`
}
"""
    rules = parse("k8s.io/api/example/v1", text).types["Widget"].fields[0].rules
    assert rules == ["ifDisabled(Wide): forbidden", "maximum=10"]


def test_a_module_with_another_checksum_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text(
        f'#!/bin/sh\ntest "$4" = k8s.io/api@v0.37.0 && echo \'{{"Dir": "{tmp_path}", "Sum": "h1:a"}}\'\n'
    )
    go.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert download("api", Release("1.37.0", {"api": "h1:a"})) == tmp_path
    with pytest.raises(SystemExit, match=r"the sum is h1:a, and sources\.toml pins h1:b"):
        download("api", Release("1.37.0", {"api": "h1:b"}))


@each_case("file", sorted(TARGET.glob("*.json")), ids=lambda file: file.name)
def test_files_have_the_format_of_the_generator(file: Path) -> None:
    document = json.loads(file.read_text())
    dump = {"kinds.json": dump_kinds, "protobuf.json": dump_messages}.get(file.name, dump_types)
    assert file.read_text() == dump(document)
