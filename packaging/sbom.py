#!/usr/bin/env python3
"""Prints what the shipped programs are made of, as a bill of materials in CycloneDX's JSON: every crate that is compiled for them, with
version, licence and the checksum of Cargo.lock. It has no date and no number of its own, so that the same sources give the same text."""

import json
import re
import subprocess
import tomllib

PROGRAMS = ["getgpu", "cudawrap", "libcudawrap", "create-cudawrap"]
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]


def cargo(*words):
    return subprocess.run(["cargo", *words, "--locked"], check=True, capture_output=True, text=True).stdout


def compiled():
    """Name and version of each crate that a build of the programs compiles; those of tests alone are none of them."""
    words = ["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]
    for option, values in (("--package", PROGRAMS), ("--target", TARGETS)):
        words += [word for value in values for word in (option, value)]
    return set(re.findall(r"^(\S+) v(\S+)", cargo(*words), re.MULTILINE))


def component(package, checksums):
    name, version = package["name"], package["version"]
    made = {"type": "application" if name in PROGRAMS else "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
    # Before SPDX's expressions, crates had a stroke between two licences.
    made["licenses"] = [{"expression": re.sub(r" ?/ ?", " OR ", package["license"])}]
    if package["source"]:
        made["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
        made["purl"] = f"pkg:cargo/{name}@{version}"
    return made


def main():
    kept = compiled()
    with open("Cargo.lock", "rb") as lock:
        checksums = {(each["name"], each["version"]): each.get("checksum") for each in tomllib.load(lock)["package"]}
    metadata = json.loads(cargo("metadata", "--format-version", "1"))
    packages = {each["id"]: each for each in metadata["packages"] if (each["name"], each["version"]) in kept}
    name = {number: f"{each['name']}@{each['version']}" for number, each in packages.items()}
    dependencies = []
    for node in metadata["resolve"]["nodes"]:
        if node["id"] in packages:
            used = (each for each in node["deps"] if any(kind["kind"] != "dev" for kind in each["dep_kinds"]))
            dependencies.append({"ref": name[node["id"]], "dependsOn": sorted({name[each["pkg"]] for each in used if each["pkg"] in name})})
    first = next(each for each in packages.values() if each["name"] == "getgpu")
    whole = {"type": "application", "bom-ref": "package", "name": "getgpu", "version": first["version"]}
    whole["licenses"] = [{"expression": first["license"]}]
    whole["externalReferences"] = [{"type": "vcs", "url": first["repository"]}]
    dependencies.append({"ref": "package", "dependsOn": sorted(name[number] for number, each in packages.items() if each["name"] in PROGRAMS)})
    components = sorted((component(each, checksums) for each in packages.values()), key=lambda each: each["bom-ref"])
    bill = {"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    bill |= {"metadata": {"component": whole}, "components": components, "dependencies": sorted(dependencies, key=lambda each: each["ref"])}
    print(json.dumps(bill, indent=1))


main()
