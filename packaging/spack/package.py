# A recipe for Spack 1.0 and newer. A MakefilePackage: `cargo install` refuses a workspace.
# Its place is packages/getgpu/package.py of a repository; a site adds where its releases are.

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Getgpu(MakefilePackage):
    """A free NVIDIA MIG device or GPU for every program on a shared node: getgpu, cudawrap and
    create-cudawrap. Leases are kernel locks; there is no daemon and no state file."""

    # A site names its mirror.
    git = "https://example.org/getgpu"

    license("MIT OR Apache-2.0", checked_by="getgpu maintainers")

    # A site gives the url and sha256 of its release, or the git of its mirror, here.
    version("0.1.0", tag="v0.1.0")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("gmake", type="build")

    build_targets = ("build",)

    # NVML is loaded when a node has it, so there is no dependency on CUDA.

    def edit(self, spec, prefix):
        # Dependencies of cargo are fetched into the stage and not into the home of whoever builds.
        env["CARGO_HOME"] = join_path(self.stage.path, "cargo")

    def install(self, spec, prefix):
        make("install-files", f"prefix={prefix}", f"sysconfdir={prefix.etc}")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_version(self):
        Executable(self.prefix.bin.getgpu)("--version")
