"""The recipe for conda: rendered as a channel would, then built and tested by rattler-build with programs that are built already.

conda.py PROGRAMS ROOM. Nothing is fetched: for the build the recipe asks for no compilers, which come from channels, and no licences of crates.
"""

import re
import sys
from pathlib import Path

import rattler_build

TOP = Path(__file__).resolve().parents[2]
RECIPE = TOP / "packaging/conda/recipe.yaml"
VARIANTS = "c_compiler: [gcc]\nc_stdlib: [sysroot]\nc_stdlib_version: ['2.28']\nrust_compiler: [rust]\n"


def changed(text: str, old: str, new: str) -> str:
    """The text with one thing replaced, which has to be there."""
    found = re.subn(old, lambda _: new, text, flags=re.MULTILINE | re.DOTALL)
    assert found[1] == 1, f"{RECIPE}: {found[1]} times {old}"
    return found[0]


def rendered() -> None:
    """The recipe as it is: what it asks of a channel, with the floor of glibc."""
    [variant] = rattler_build.Stage0Recipe.from_file(RECIPE).render(rattler_build.VariantConfig.from_yaml(VARIANTS))
    recipe = variant.recipe.to_dict()
    assert recipe["package"] == {"name": "getgpu", "version": "0.1.0"}, recipe
    assert "sysroot_linux-64 2.28.*" in recipe["requirements"]["build"], recipe


def built(programs: Path, room: Path) -> None:
    """A package of programs that are there, with the recipe's own tests run on it."""
    text = changed(RECIPE.read_text(), r"^requirements:\n.*?(?=^\S)", "")
    text = changed(text, r"path: \.\./\.\.", f"path: {TOP}")
    text = changed(text, r"cargo-bundle-licenses --format yaml --output", "touch")
    text = changed(text, r"make build", "make build CARGO=true")
    text = changed(text, r"make install-files", f"make install-files programs={programs}")
    (room / "recipe.yaml").write_text(text)
    recipe = rattler_build.Stage0Recipe.from_file(room / "recipe.yaml")
    tools = rattler_build.ToolConfiguration(test_strategy="native")
    [result] = recipe.run_build(output_dir=room / "out", channels=[], tool_config=tools)
    print("\n".join(result.log))
    assert any("all tests passed" in line for line in result.log), "the recipe's tests did not run"


rendered()
built(Path(sys.argv[1]), Path(sys.argv[2]))
