//! The modulefile and the recipes for EasyBuild, Spack and conda, each checked by its own
//! tool (packaging/test/recipes.sh). A tool that is missing is reported as SKIPPED.

use getgpu_tests::packages::{built, script};
use harness::skip::{Need, lacks};

#[track_caller]
fn recipe(name: &str) {
    if lacks(&[Need::Tool("make"), Need::Tool("bash")]) {
        return;
    }
    let programs = built().display().to_string();
    let words = ["packaging/test/recipes.sh", name, &programs];
    script(&words, "recipes: all as it should be");
}

#[test]
fn environment_modules_load_and_unload_the_modulefile() {
    recipe("modules");
}

#[test]
fn lmod_loads_and_unloads_the_modulefile() {
    recipe("lmod");
}

#[test]
fn easybuild_checks_and_installs_the_easyconfig() {
    recipe("easybuild");
}

#[test]
fn the_recipe_for_spack_is_of_spacks_style() {
    recipe("spack");
}

#[test]
fn rattler_build_renders_builds_and_tests_the_recipe_for_conda() {
    recipe("conda");
}
