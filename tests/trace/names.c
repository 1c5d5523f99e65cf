/* Kernels' names as reports show them. */
#include "helpers.h"
#include "trace/record/kernel_names.h"
#include "trace/record/store.h"

#include <pthread.h>

TEST(names, kernel_names_are_shortened_to_their_distinctive_part)
{
    static const struct {
        const char *name, *shown;
    } rows[] = {
        {"MatMul_2", "MatMul_2"},
        {"Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
         "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)",
         "vectorized_elementwise_kernel<CUDAFunctor_add>"},
        {"void (anonymous namespace)::softmax_warp_forward<float, 10, false>(float*, int)",
         "softmax_warp_forward"},
        {"void cutlass::Kernel<cutlass_80_s1688gemm_64x64_tn>(cutlass_80_s1688gemm_64x64_tn::P)",
         "cutlass_80_s1688gemm_64x64_tn"},
        {"void cutlass::Kernel2<cutlass_80_wmma_nn>(cutlass_80_wmma_nn::Params)",
         "cutlass_80_wmma_nn"},
        {"void lib::kernel<128, 4>(float*)", "kernel"},
        {"void lib::Kernel(float*)", "Kernel"},
        {"void rowwise_adagrad_unweighted_with_a_name_that_has_no_end_cta_per_row_1<float>(T::A)",
         "rowwise_adagrad_unweighted_w..._has_no_end_cta_per_row_1"},
        {"void rowwise_adagrad_unweighted_with_a_name_that_has_no_end_warp_per_row_1<float>(T::A)",
         "rowwise_adagrad_unweighted_w...has_no_end_warp_per_row_1"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_note("%s", rows[i].name);
        CHECK_STR_EQ(weir__shorten_name(rows[i].name).text, rows[i].shown);
    }
}

TEST(names, names_with_equal_short_forms_stay_distinct)
{
    const char *a =
        "void "
        "n::backward_codegen_rowwise_adagrad_weighted_kernel_with_one_cta_per_row_1<float>(int)";
    const char *b =
        "void "
        "n::backward_codegen_rowwise_adagrad_unweighted_kernel_with_one_cta_per_row_1<int>(int)";

    CHECK(strcmp(weir__plain_name(a).text, weir__plain_name(b).text));
    CHECK_STR_EQ(weir__cut_name(weir__plain_name(a).text).text, weir__shorten_name(a).text);
}

TEST(names, names_are_never_cut_inside_a_character)
{
    char name[200];

    for (size_t lead = 0; lead < 8; lead++) {
        struct weir__short_name cut;
        const char *at;

        memset(name, 'a', lead);
        for (size_t i = lead; i + 3 < sizeof name; i += 3)
            memcpy(name + i, "\xe7\xae\x97\0", 4);
        cut = weir__shorten_name(name);
        CHECK(strlen(cut.text) <= WEIR__SHORT_NAME);
        for (at = cut.text; *at; at += (unsigned char)*at >= 0x80 ? 3 : 1)
            CHECK((unsigned char)*at == 0xe7 || *at == 'a' || *at == '.');
    }
}

enum { NAMERS = 4, NAMES = 3000 };

/* Each names everything, beginning elsewhere, so that names are looked for while they are added. */
static void *name_all(void *arg)
{
    uint32_t *ids = arg;
    char name[32];

    for (unsigned i = 0; i < NAMES; i++) {
        unsigned k = (i + ids[NAMES] * NAMES / NAMERS) % NAMES;

        snprintf(name, sizeof name, "name %u of many", k);
        ids[k] = weir__trace_name(name);
    }
    return NULL;
}

TEST(names, names_looked_up_by_threads_at_once_get_one_number_each)
{
    static uint32_t ids[NAMERS][NAMES + 1];
    pthread_t threads[NAMERS];
    char name[32];

    for (uint32_t i = 0; i < NAMERS; i++) {
        ids[i][NAMES] = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, name_all, ids[i]), 0);
    }
    for (int i = 0; i < NAMERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (unsigned k = 0; k < NAMES; k++) {
        snprintf(name, sizeof name, "name %u of many", k);
        CHECK_STR_EQ(weir__trace_name_text(ids[0][k]), name);
        for (int i = 1; i < NAMERS; i++)
            CHECK_EQ(ids[i][k], ids[0][k]);
    }
}
