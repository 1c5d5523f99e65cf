/* Writing files: a file is written completely or not at all. */
#include "base/file.h"
#include "harness/test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/weir-files-XXXXXX", path[64];

static void enter_folder(void)
{
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out.txt", folder);
}

static void leave_folder(void)
{
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(folder), 0); /* nothing else is left in it */
}

static void check_content(const char *want)
{
    size_t size;
    char *data;

    CHECK_OK(weir__file_read(path, 1 << 20, "test", &data, &size));
    CHECK_EQ(size, strlen(want));
    CHECK_MEM_EQ(data, want, size);
    weir__free(data);
}

static int count_files(void)
{
    DIR *d = opendir(folder);
    int n = 0;

    CHECK(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static weir_status much(FILE *out, const void *user)
{
    (void)user;
    for (int i = 0; i < 100000; i++)
        fprintf(out, "line %d\n", i);
    return WEIR_OK;
}

TEST(files, a_new_file_replaces_the_old_one)
{
    struct stat about;

    enter_folder();
    CHECK_OK(weir__file_write_text(path, "old"));
    CHECK_EQ(chmod(path, 0640), 0);
    CHECK_OK(weir__file_write_text(path, "newer"));
    check_content("newer");
    CHECK_EQ(stat(path, &about), 0);
    CHECK_EQ(about.st_mode & 0777, 0640);
    CHECK_EQ(count_files(), 1);
    leave_folder();
}

static weir_status fail_halfway(FILE *out, const void *user)
{
    much(out, user);
    return WEIR_ENOMEM;
}

TEST(files, a_writer_that_fails_leaves_the_old_file)
{
    enter_folder();
    CHECK_OK(weir__file_write_text(path, "old"));
    CHECK_STATUS(weir__file_write(path, fail_halfway, NULL), WEIR_ENOMEM);
    check_content("old");
    leave_folder();
}

TEST(files, a_disk_that_is_full_leaves_the_old_file)
{
    struct rlimit before, small;

    enter_folder();
    CHECK_OK(weir__file_write_text(path, "old"));
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){4096, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_STATUS(weir__file_write(path, much, NULL), WEIR_EIO);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_STR(weir_last_error(), strerror(EFBIG));
    CHECK_STR(weir_last_error(), path);
    check_content("old");
    leave_folder();
}

static weir_status die_halfway(FILE *out, const void *user)
{
    much(out, user);
    fflush(out);
    raise(SIGKILL);
    return WEIR_OK;
}

TEST(files, a_writer_that_is_killed_leaves_the_old_file)
{
    struct dirent *e;
    char draft[400];
    int status;
    pid_t pid;
    DIR *d;

    enter_folder();
    CHECK_OK(weir__file_write_text(path, "old"));
    CHECK((pid = fork()) >= 0);
    if (!pid) {
        (void)weir__file_write(path, die_halfway, NULL);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    check_content("old");
    CHECK((d = opendir(folder)));
    while ((e = readdir(d))) /* a part of the new one is left, under another name */
        if (strstr(e->d_name, ".part")) {
            snprintf(draft, sizeof draft, "%s/%s", folder, e->d_name);
            CHECK_EQ(unlink(draft), 0);
        }
    closedir(d);
    CHECK_OK(weir__file_write_text(path, "newer"));
    check_content("newer");
    leave_folder();
}

TEST(files, a_link_is_kept_and_its_target_is_replaced)
{
    char link[80];
    struct stat about;

    enter_folder();
    CHECK_OK(weir__file_write_text(path, "old"));
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK_EQ(symlink("out.txt", link), 0);
    CHECK_OK(weir__file_write_text(link, "newer"));
    check_content("newer");
    CHECK_EQ(lstat(link, &about), 0);
    CHECK(S_ISLNK(about.st_mode));
    CHECK_EQ(unlink(link), 0);
    leave_folder();
}

TEST(files, a_device_that_is_full_says_so)
{
    CHECK_STATUS(weir__file_write_text("/dev/full", "text"), WEIR_EIO);
    CHECK_STR(weir_last_error(), strerror(ENOSPC));
    CHECK_STATUS(weir__file_write(("/dev/full"), much, NULL), WEIR_EIO);
    CHECK_STR(weir_last_error(), strerror(ENOSPC));
    CHECK_OK(weir__file_write_text("/dev/null", "text"));
}

TEST(files, an_unwritable_path_is_detected_before_anything_is_written)
{
    enter_folder();
    CHECK_OK(weir__file_check_writable(path));
    CHECK_EQ(count_files(), 0);
    CHECK_OK(weir__file_write_text(path, "old"));
    CHECK_OK(weir__file_check_writable(path));
    check_content("old");
    CHECK_STATUS(weir__file_check_writable("/no/such/folder/out.txt"), WEIR_EIO);
    CHECK_STATUS(weir__file_write_text("/no/such/folder/out.txt", "text"), WEIR_EIO);
    CHECK_STR(weir_last_error(), strerror(ENOENT));
    leave_folder();
}
