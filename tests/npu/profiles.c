/* Profile files: valid ones, and refused ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/test.h"
#include "sim/profile.h"
#include "weir/device.h"

TEST(profiles, every_built_in_profile_is_complete)
{
    struct weir__profile p;
    size_t n = 0;

    for (; weir__profile_at(n); n++) {
        test_note("%s", weir__profile_at(n));
        CHECK_OK(weir__profile_load(weir__profile_at(n), &p));
        CHECK_STR_EQ(p.name, weir__profile_at(n));
        if (!strncmp(p.name, "910", 3))
            CHECK_EQ((int)p.vector_cores, 2 * (int)p.cube_cores);
    }
    CHECK_EQ(n, 16);
    CHECK_OK(weir__profile_load("A3", &p));
    CHECK_STR_EQ(p.name, "910_9391");
}

/* Of every figure of a built-in profile, its own text or one it inherits says whether it was
 * published, measured, fitted or guessed. */
TEST(profiles, every_figure_says_whether_it_is_published_fitted_or_guessed)
{
    static const char *const kinds[] = {"published", "measured", "fitted", "guessed"};

    for (size_t i = 0; weir__profile_at(i); i++) {
        const char *line = weir__profile_text(i), *end;

        for (; *line; line = *end ? end + 1 : end) {
            const char *source = strchr(line, '#');
            bool known = false;

            end = line + strcspn(line, "\n");
            if (*line == '#' || *line == '\n' || !strncmp(line, "name ", 5) ||
                !strncmp(line, "inherits ", 9))
                continue;
            test_note("%s: %.*s", weir__profile_at(i), (int)(end - line), line);
            CHECK(source && source < end);
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                known |= !strncmp(source + 2, kinds[k], strlen(kinds[k]));
            CHECK(known);
        }
    }
}

TEST(profiles, bad_profiles_are_refused_with_the_line)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "is missing"},
        {"inherits a3\nwarp_size 32 # cuda\n", ":2: there is no key 'warp_size'"},
        {"inherits a3\ncube_cores 24\n", ":2: cube_cores has no source"},
        {"inherits a3\ncube_cores 24 #  \n", "has no source"},
        {"inherits a3\ncube_cores many # x\n", "cube_cores is 'many', not a number in 1..1024"},
        {"inherits a3\ncube_cores 0 # x\n", "not a number in 1..1024"},
        {"inherits a3\ncube_cores nan # x\n", "not a number"},
        {"inherits a3\ncube_cores 1e999 # x\n", "not a number"},
        {"inherits a3\ncube_cores 24 # x\ncube_cores 20 # y\n", ":3: cube_cores is given twice"},
        {"inherits a3\ncube_cores 24 cores # x\n", "'key value # source'"},
        {"inherits a3\ncube_cores\n", "'key value # source'"},
        {"inherits nobody\n", "there is no profile 'nobody'"},
        {"inherits a3\nhbm_curve 1:2,x # x\n", ":2: hbm_curve is 'x' there"},
        {"inherits a3\nhbm_curve 10:1,5:1 # x\n", "must take longer, and 5:1 does not"},
        {"inherits a3\ncube_curve 1:1,2:3 # x\n", "must take longer, and 2:3 does not"},
        {"inherits a3\nrow_curve_beside 1:-1 # x\n", "row_curve_beside is '1:-1' there"},
        {"inherits a3\nnode_dies 1 # x\n", "pair_dies is 2, more than the 1 of node_dies"},
    };
    struct weir__profile p;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_note("row %zu", i);
        CHECK(weir__profile_parse(rows[i].text, "text", &p) != WEIR_OK);
        CHECK_STR(weir_last_error(), rows[i].part);
    }
}

TEST(profiles, a_profile_file_of_the_user_opens_a_device)
{
    char path[] = "/tmp/weir-profile-XXXXXX.profile", spec[128];
    FILE *f = fdopen(mkstemps(path, 8), "w");
    weir_device_props props;
    weir_device *dev;

    CHECK(f);
    fputs("inherits a2 # all but the cores\nname mine # my own\ncube_cores 3 # mine\n"
          "vector_cores 5 # mine\r\n\n# done\n",
          f);
    fclose(f);
    snprintf(spec, sizeof spec, "npu:%s,policy=batch", path);
    CHECK_OK(weir_device_open(spec, &dev));
    weir_device_get_props(dev, &props, sizeof props);
    CHECK_EQ(props.cores.cube, 3);
    CHECK_EQ(props.cores.vector, 5);
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(unlink(path), 0);
}
