/* The system calls of the programs that an emulator of a processor may not know, and openat2, which none calls: a line for each that
   fails, and for each name that another process shows otherwise than a kernel does. Says at the end how many there were. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int tried, failed;

static void call(const char *name, long result)
{
    tried++;
    if (result < 0) {
        failed++;
        printf("  %s: %s\n", name, strerror(errno));
    }
}

/* A file of /proc does not have this text. */
static void shows(const char *path, const char *text)
{
    char content[4096] = "";
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, content, sizeof content - 1);
    tried++;
    if (length < 0 || strstr(content, text) == NULL) {
        failed++;
        printf("  %s: \"%s\" instead of \"%s\"\n", path, content, text);
    }
    close(file);
}

static long child(int exit_signal)
{
    long pid = syscall(SYS_clone, exit_signal, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, __WALL);
    return pid;
}

int main(void)
{
    char path[] = "/tmp/calls.XXXXXX", file_name[64];
    const char *name = program_invocation_short_name;
    int file = mkstemp(path), other = open(path, O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 1LL << 40, .l_len = 720720}, asked = lock;
    struct open_how how = {.flags = O_RDONLY};
    struct statx facts;

    call("F_OFD_SETLK", fcntl(file, F_OFD_SETLK, &lock));
    call("F_OFD_GETLK", fcntl(other, F_OFD_GETLK, &asked));
    errno = 0;
    call("F_OFD_GETLK sees another's lock", asked.l_type == F_WRLCK && asked.l_start == 1LL << 40 ? 0 : -1);
    call("F_OFD_SETLK of a locked range is refused", fcntl(other, F_OFD_SETLK, &lock) == -1 && errno == EAGAIN ? 0 : -1);
    call("F_DUPFD", fcntl(file, F_DUPFD, 100));
    call("F_DUPFD_CLOEXEC", fcntl(file, F_DUPFD_CLOEXEC, 200));
    call("close_range", syscall(SYS_close_range, 200, ~0U, 0));
    int memory = memfd_create("x", MFD_ALLOW_SEALING);
    call("memfd_create", memory);
    call("F_ADD_SEALS", fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK));
    call("openat2", syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
    call("statx", statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &facts));
    call("faccessat2", syscall(SYS_faccessat2, AT_FDCWD, path, R_OK, AT_EACCESS));
    call("renameat2", syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, path, 0));
    call("PR_SET_PDEATHSIG", prctl(PR_SET_PDEATHSIG, 0));
    call("clone with SIGCHLD", child(SIGCHLD));
    call("clone without an exit signal", child(0));
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    call("pidfd_open", self);
    call("pidfd_send_signal", syscall(SYS_pidfd_send_signal, self, 0, NULL, 0));
    errno = 0;
    ptrace(PTRACE_DETACH, 0, NULL, NULL);
    call("ptrace", errno == ENOSYS ? -1 : 0);

    int ends[2];
    call("pipe2", pipe2(ends, 0));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        char byte;
        _exit(read(ends[0], &byte, 1) != 0);
    }
    snprintf(file_name, sizeof file_name, "/proc/%d/comm", pid);
    shows(file_name, name);
    char program[4096] = "";
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    call("readlink of /proc/self/exe", length);
    snprintf(file_name, sizeof file_name, "/proc/%d/exe", pid);
    char theirs[4096] = "";
    call("readlink of /proc/PID/exe", readlink(file_name, theirs, sizeof theirs - 1));
    errno = 0;
    if (strcmp(program, theirs) != 0)
        printf("  /proc/PID/exe: %s\n", theirs);
    failed += strcmp(program, theirs) != 0;
    tried++;
    int pidfd = syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ready = {.fd = pidfd, .events = POLLIN};
    close(ends[1]);
    call("a pidfd tells of an exit", poll(&ready, 1, 10000) == 1 ? 0 : -1);
    waitpid(pid, NULL, 0);
    unlink(path);
    printf("  %d of %d\n", failed, tried);
    return 0;
}
