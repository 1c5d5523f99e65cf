/* Requests served in virtual time: what must hold whatever the device is. */
#include "graph/estimate/serve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "helpers.h"

static struct weir__requests parse(const char *text)
{
    struct weir__requests r;

    CHECK_OK(weir__requests_parse(text, strlen(text), "test.jsonl", &r));
    return r;
}

/* `n` requests, one every `every` ms, of `prompt` + `output` tokens; `same` begin alike. */
static struct weir__requests regular(int n, double every, int prompt, int output, bool same)
{
    static char text[1 << 16];
    size_t size = 0;

    for (int i = 0; i < n; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "{\"timestamp\":%.0f,\"input_length\":%d,\"output_length\":%d,"
                                 "\"hash_ids\":[",
                                 i * every, prompt, output);
        for (int k = 0; k < prompt / WEIR__SERVE_BLOCK; k++)
            size += (size_t)snprintf(text + size, sizeof text - size, "%s%d", k ? "," : "",
                                     same ? k : 1000 * (i + 1) + k);
        size += (size_t)snprintf(text + size, sizeof text - size, "]}\n");
        CHECK_LT(size, sizeof text);
    }
    return parse(text);
}

static struct weir__served serve(const struct weir__deploy *d,
                                 const struct weir__serve_options *options,
                                 const struct weir__requests *r)
{
    struct weir__llm m = deepseek();
    struct weir__served s;
    weir_device *dev;

    CHECK_OK(weir_device_open("npu:a3", &dev));
    CHECK_OK(weir__serve(dev, &m, d, options, r, &s));
    CHECK_OK(weir_device_close(dev));
    weir__free(s.requests);
    s.requests = NULL;
    return s;
}

TEST(serving, a_request_by_itself_takes_a_prefill_and_a_step_for_each_token)
{
    struct weir__llm m = deepseek();
    struct weir__deploy d = deploy(64, 1, WEIR__PLACE_SINGLE);
    struct weir__requests r = regular(1, 0, 1024, 65, false);
    struct weir__served s = serve(&d, &(struct weir__serve_options){0}, &r);
    double us;
    weir_device *dev;

    CHECK_OK(weir_device_open("npu:a3", &dev));
    d.prompt = 1024;
    CHECK_OK(weir__estimate_time_step(dev, &m, &d, true, &us));
    CHECK(fabs(s.ttft_ms.p50 / (us / 1e3) - 1) < 0.02);
    d.prompt = 1056;
    d.output = 0;
    CHECK_OK(weir__estimate_time_step(dev, &m, &d, false, &us));
    CHECK(fabs(s.tpot_ms.p50 / (us / 1e3) - 1) < 0.02);
    CHECK_EQ(s.n, 1);
    CHECK_EQ(s.steps, 65);
    weir__requests_fini(&r);
    CHECK_OK(weir_device_close(dev));
}

TEST(serving, every_request_gets_all_its_tokens_in_each_way_of_serving)
{
    struct weir__requests r = regular(60, 50, 3000, 40, false);

    for (int way = 0; way < 4; way++) {
        struct weir__deploy d = deploy(64, 1, WEIR__PLACE_SINGLE);
        struct weir__serve_options o = {.prefill_ranks = way == 2 ? 16 : 0};
        struct weir__served s;

        d.chunk = way == 1 ? 256 : 0;
        d.accept = way == 3 ? 0.7 : 0;
        s = serve(&d, &o, &r);
        test_note("way %d: %zu requests, %.0f tokens/s in %.2f s", way, s.n, s.tokens_s, s.seconds);
        CHECK_EQ(s.n, 60);
        CHECK_EQ(s.never, 0);
        CHECK(fabs(s.tokens_s * s.seconds - 60 * 40) < 1e-6 * 2400);
        CHECK(s.ttft_ms.p50 <= s.ttft_ms.p90 && s.ttft_ms.p90 <= s.ttft_ms.p99 &&
              s.ttft_ms.p99 <= s.ttft_ms.most);
        CHECK(s.wait_ms.most <= s.ttft_ms.most);
        CHECK(s.seconds >= 59 * 0.05);
    }
    weir__requests_fini(&r);
}

TEST(serving, more_arrivals_never_give_a_first_token_sooner)
{
    struct weir__requests r = regular(80, 100, 4000, 30, false);
    struct weir__deploy d = deploy(64, 1, WEIR__PLACE_SINGLE);
    double before = 0;

    for (double rate = 0.05; rate < 60; rate *= 10) {
        struct weir__served s = serve(&d, &(struct weir__serve_options){.rate = rate}, &r);

        test_note("rate %g: %.1f ms before %.1f", rate, s.ttft_ms.mean, before);
        CHECK(s.ttft_ms.mean >= before * 0.99);
        before = s.ttft_ms.mean;
    }
    weir__requests_fini(&r);
}

TEST(serving, prompts_on_other_dies_or_in_chunks_do_not_delay_decoding)
{
    struct weir__requests r = regular(120, 100, 6000, 60, false);
    struct weir__deploy d = deploy(64, 1, WEIR__PLACE_SINGLE);
    double apart = serve(&d, &(struct weir__serve_options){0}, &r).tpot_ms.p99;

    double elsewhere =
        serve(&d, &(struct weir__serve_options){.prefill_ranks = 32}, &r).tpot_ms.p99;
    double chunked;

    d.chunk = 256;
    chunked = serve(&d, &(struct weir__serve_options){0}, &r).tpot_ms.p99;
    test_note("apart %.1f, elsewhere %.1f, in chunks %.1f ms", apart, elsewhere, chunked);
    CHECK(elsewhere < apart);
    CHECK(chunked < apart);
    weir__requests_fini(&r);
}

/* Ten short prompts for each die that takes prompts are one step of it, not ten. */
TEST(serving, dies_that_take_prompts_take_several_in_a_step)
{
    struct weir__deploy d = deploy(64, 1, WEIR__PLACE_SINGLE);
    struct weir__requests few = regular(32, 0, 64, 8, false), many = regular(320, 0, 64, 8, false);
    double one = serve(&d, &(struct weir__serve_options){.prefill_ranks = 32}, &few).ttft_ms.most;
    double ten = serve(&d, &(struct weir__serve_options){.prefill_ranks = 32}, &many).ttft_ms.most;

    test_note("%.1f ms for one each, %.1f for ten", one, ten);
    CHECK(ten >= one);
    CHECK(ten < 6 * one);
    weir__requests_fini(&few);
    weir__requests_fini(&many);
}

TEST(serving, a_prompt_with_a_known_prefix_computes_only_the_rest)
{
    struct weir__requests r = regular(40, 4000, 4096, 8, true),
                          o = regular(40, 4000, 4096, 8, false);
    struct weir__deploy d = deploy(1, 1, WEIR__PLACE_SINGLE);
    struct weir__served alike, differ;

    d.ranks = 16; /* one replica: all prompts meet */
    d.tp = 16;
    alike = serve(&d, &(struct weir__serve_options){0}, &r);
    differ = serve(&d, &(struct weir__serve_options){0}, &o);
    CHECK(!(differ.hit_share > 0));
    CHECK(fabs(alike.hit_share - 39.0 / 40 * 4095 / 4096) < 1e-9);
    CHECK(alike.ttft_ms.p50 < differ.ttft_ms.p50 / 5);
    weir__requests_fini(&r);
    weir__requests_fini(&o);
}

TEST(serving, a_request_that_fits_no_replica_is_reported)
{
    struct weir__requests r = parse("{\"timestamp\":0,\"input_length\":90000000,"
                                    "\"output_length\":1}\n{\"timestamp\":5,\"input_length\":10,"
                                    "\"output_length\":3}");
    struct weir__deploy d = deploy(64, 1, WEIR__PLACE_SINGLE);
    struct weir__served s = serve(&d, &(struct weir__serve_options){0}, &r);

    CHECK_EQ(s.never, 1);
    CHECK_EQ(s.n, 1);
    weir__requests_fini(&r);
}

TEST(serving, bad_traces_and_options_are_refused)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no request"},
        {"[]", "expected an object"},
        {"{\"timestamp\":1}", "input_length"},
        {"{\"timestamp\":1,\"input_length\":0,\"output_length\":1}", "test.jsonl:1"},
        {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":1}", "0 or more"},
        {"{\"timestamp\":1,\"input_length\":1,\"output_length\":1}\n{", "test.jsonl:2"},
    };
    struct weir__llm m = deepseek();
    struct weir__deploy d = deploy(64, 1, WEIR__PLACE_SINGLE);
    struct weir__requests r;
    struct weir__served s;
    weir_device *dev;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_note("%s", bad[i].text);
        CHECK_STATUS(weir__requests_parse(bad[i].text, strlen(bad[i].text), "test.jsonl", &r),
                     WEIR_EPARSE);
        CHECK_STR(weir_last_error(), bad[i].says);
    }
    r = regular(1, 0, 10, 2, false);
    CHECK_OK(weir_device_open("npu:a3", &dev));
    CHECK_STATUS(
        weir__serve(dev, &m, &d, &(struct weir__serve_options){.prefill_ranks = 64}, &r, &s),
        WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "leave none");
    CHECK_OK(weir_device_close(dev));
    weir__requests_fini(&r);
}

TEST(serving, extra_streams_and_chunks_make_graphs_that_load_and_never_cost_much)
{
    struct weir__llm m = deepseek();
    struct weir__deploy d = deploy(64, 32, WEIR__PLACE_SINGLE);
    double plain, us;
    weir_device *dev;

    CHECK_OK(weir_device_open("npu:a3", &dev));
    CHECK_OK(weir__estimate_time_step(dev, &m, &d, false, &plain));
    d.prefetch = true;
    CHECK_OK(weir__estimate_time_step(dev, &m, &d, false, &us));
    CHECK(us < plain * 1.02);
    d.prolog = true;
    CHECK_OK(weir__estimate_time_step(dev, &m, &d, false, &us));
    CHECK(us < plain * 1.02);
    for (double before = us, chunk = 16; chunk <= 1024; chunk *= 4) {
        d.chunk = chunk;
        CHECK_OK(weir__estimate_time_step(dev, &m, &d, false, &us));
        CHECK(us >= before);
        before = us;
    }
    CHECK_OK(weir_device_close(dev));
}
