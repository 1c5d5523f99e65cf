/* Profiles of other tools: own times of spans, waits, and compressed files. */
#include "helpers.h"

#define SPAN(name, cat, tid, ts, dur, args)                                          \
    "{\"ph\":\"X\",\"name\":\"" name "\",\"cat\":\"" cat "\",\"pid\":0,\"tid\":" tid \
    ",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{" args "}},"
#define KERNEL(name, stream, ts, dur, call) \
    SPAN(name, "kernel", #stream, ts, dur, "\"correlation\":" #call)
#define CALL(name, ts, call) SPAN(name, "cuda_runtime", "900", ts, 1, "\"correlation\":" #call)
#define TASK(name, stream, ts, dur, args)                                             \
    "{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":5,\"tid\":" #stream ",\"ts\":\"" #ts \
    "\",\"dur\":" #dur ",\"args\":{" args "}},"
#define ASCEND \
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5,\"args\":{\"name\":\"Ascend Hardware\"}},"

static weir_trace *parse(const char *text)
{
    weir_trace *t;

    CHECK_OK(weir_trace_parse(text, strlen(text), "test.json", &t));
    return t;
}

static int64_t took(const weir_trace_data *d, const char *name, int n)
{
    const weir_trace_op *op = find_op(d, name, n);

    return op->ended_ns - op->started_ns;
}

/* The operator that the n-th of `name` waited for, "" if it waited for none. */
static const char *waited_for(const weir_trace_data *d, const char *name, int n)
{
    const weir_trace_op *op = find_op(d, name, n);

    return op->nwaits ? d->ops[d->waits[op->first_wait].source_op].name : "";
}

TEST(trace_import, a_span_counts_its_own_time_without_its_callees)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "{\"traceEvents\":[" /* as PyTorch's profiler writes a step of the host */
        SPAN("ProfilerStep#1", "user_annotation", "9", 0, 200, "") SPAN(
            "aten::linear", "cpu_op", "9", 10, 100, "") SPAN("aten::t", "cpu_op", "9", 12, 4, "")
            SPAN("aten::mm", "cpu_op", "9", 20, 90,
                 "") SPAN("aten::resolve_conj", "cpu_op", "9", 21, 1,
                          "") SPAN("aten::only_calls", "cpu_op", "9", 150, 20, "")
                SPAN("aten::add", "cpu_op", "9", 150, 20,
                     "") "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\","
                         "\"pid\":\"Spans\",\"tid\":\"PyTorch Profiler\",\"ts\":0,\"dur\":500}]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.ndevices, 1); /* the profiler's own track is none */
    CHECK_EQ(d.nops, 5);
    CHECK_EQ(took(&d, "aten::mm", 0), 89000);
    CHECK_EQ(took(&d, "aten::linear", 0), 6000);
    CHECK_EQ(took(&d, "aten::t", 0), 4000);
    CHECK_EQ(took(&d, "aten::resolve_conj", 0), 1000);
    CHECK_EQ(took(&d, "aten::add", 0), 20000);
    CHECK_EQ(find_op(&d, "aten::add", 0)->started_ns, 150000); /* a pause of the host stays one */
    weir_trace_free(t);
}

TEST(trace_import, a_kernel_that_overlaps_the_one_before_keeps_its_end)
{
    weir_trace_data d;
    weir_trace *t = parse("[" KERNEL("a", 7, 0, 10, 1) KERNEL("b", 7, 9, 10, 2) "]");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 2);
    CHECK_EQ(find_op(&d, "b", 0)->started_ns, 10000);
    CHECK_EQ(find_op(&d, "b", 0)->ended_ns, 19000);
    weir_trace_free(t);
}

TEST(trace_import, a_wait_that_names_a_record_points_to_the_operator_before_it)
{
    weir_trace_data d;
    /* a2 had ended too, but was launched after the record: b waited for a1 alone. */
    weir_trace *t =
        parse("[" KERNEL("a1", 7, 0, 10, 1) KERNEL("a2", 7, 10, 5, 3) KERNEL("a3", 7, 15, 50, 4)
                  SPAN("Stream Wait Event", "cuda_sync", "13", 12, 0,
                       "\"stream\":13,\"wait_on_stream\":7,\"wait_on_cuda_event_record_corr_id\":2")
                      KERNEL("b", 13, 20, 5, 6) "]");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_STR_EQ(waited_for(&d, "b", 0), "a1");
    weir_trace_free(t);
}

TEST(trace_import, a_wait_of_the_host_delays_the_next_launch_of_its_thread)
{
    weir_trace_data d;
    weir_trace *t = parse("[" CALL("cudaLaunchKernel", 0, 10) CALL("cudaLaunchKernel", 1, 11)
                              CALL("cudaStreamWaitEvent", 2, 12) CALL("cudaLaunchKernel", 3, 13)
                                  CALL("cudaLaunchKernel", 4, 14) KERNEL("a", 7, 10, 90, 10)
                                      KERNEL("b", 8, 10, 5, 11) KERNEL("c", 8, 101, 5, 13)
                                          KERNEL("late", 9, 14, 85, 14) "]");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_STR_EQ(waited_for(&d, "c", 0), "a"); /* not "late", which was launched after the wait */
    weir_trace_free(t);
}

TEST(trace_import, work_after_a_synchronisation_is_ordered_after_all_work_before_it)
{
    weir_trace_data d;
    weir_trace *t = parse("[" CALL("cudaLaunchKernel", 0, 10) CALL("cudaLaunchKernel", 1, 11)
                              CALL("cudaDeviceSynchronize", 2, 12) CALL("cudaLaunchKernel", 30, 13)
                                  KERNEL("a", 7, 5, 10, 10) KERNEL("b", 8, 5, 20, 11)
                                      KERNEL("c", 9, 100, 5, 13) "]");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(find_op(&d, "c", 0)->nwaits, 2);
    weir_trace_free(t);
}

TEST(trace_import, an_ascend_wait_points_to_the_operator_before_its_events_record)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "[" ASCEND TASK("MatMulV2", 2, 10, 30, "\"Task Type\":\"AI_CORE\"")
            TASK("EVENT_RECORD", 2, 40, 1, "\"Event Id\":4")
                TASK("Cast", 2, 41, 3, "\"Task Type\":\"AI_VECTOR_CORE\"")
                    TASK("Add", 3, 10, 34, "\"Task Type\":\"AI_VECTOR_CORE\"")
                        TASK("EVENT_RECORD", 3, 44, 1, "\"Event Id\":9")
                            TASK("EVENT_WAIT", 5, 11, 35, "\"Event Id\":4")
                                TASK("Softmax", 5, 47, 8, "\"Task Type\":\"AI_VECTOR_CORE\"") "]");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 4);
    CHECK_STR_EQ(waited_for(&d, "Softmax", 0), "MatMulV2");
    weir_trace_free(t);
}

TEST(trace_import, grids_are_blocks_and_devices_have_their_cores)
{
    weir_trace_data d;
    weir_trace *t =
        parse("{\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA H800\",\"numSms\":132}],"
              "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":3,\"world_size\":64},"
              "\"traceEvents\":[" SPAN("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "kernel", "7",
                                       0, 9, "\"device\":0,\"grid\":[24,1,1]")
                  SPAN("gemm", "kernel", "7", 10, 9, "\"device\":0,\"grid\":[8,16,2]") "]}");

    weir_trace_get(t, &d, sizeof d);
    CHECK_EQ(find_op(&d, "gemm", 0)->blocks, 256);
    CHECK_EQ(d.ops[0].engine, WEIR_ENGINE_VECTOR); /* a collective that holds cores */
    CHECK_EQ(d.devices[0].cores.cube, 132);
    CHECK_EQ(d.devices[0].rank, 3);
    CHECK_STR_EQ(d.devices[0].model, "NVIDIA H800");
    weir_trace_free(t);
}

/* [{"name":"k","ph":"X","ts":1,"dur":2,"tid":"stream 1","pid":0}] */
static const char gzip_file[] =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x8b\xae\x56\xca\x4b\xcc\x4d\x55\xb2\x52\xca\x56\xd2"
    "\x51\x2a\xc8\x00\x32\x22\x80\x8c\x92\x62\x25\x2b\x43\x1d\xa5\x94\xd2\x22\x25\x2b\x23\x20\x37"
    "\x33\x05\x28\x51\x5c\x52\x94\x9a\x98\xab\x60\x08\x52\x08\x12\x30\xa8\x8d\x05\x00\x2b\x7d\xd7"
    "\x08\x3f\x00\x00\x00";
static const char zstd_file[] =
    "\x28\xb5\x2f\xfd\x20\x3f\xf9\x01\x00\x5b\x7b\x22\x6e\x61\x6d\x65\x22\x3a\x22\x6b\x22\x2c\x22"
    "\x70\x68\x22\x3a\x22\x58\x22\x2c\x22\x74\x73\x22\x3a\x31\x2c\x22\x64\x75\x72\x22\x3a\x32\x2c"
    "\x22\x74\x69\x64\x22\x3a\x22\x73\x74\x72\x65\x61\x6d\x20\x31\x22\x2c\x22\x70\x69\x64\x22\x3a"
    "\x30\x7d\x5d";

/* Whole, cut off and damaged. */
static void check_compressed(const char *file, size_t size)
{
    weir_trace_data d;
    weir_trace *t;
    weir_status st = weir_trace_parse(file, size, "test.json", &t);
    char damaged[128];

    if (st == WEIR_EUNSUPPORTED)
        SKIP("%s", weir_last_error());
    CHECK_OK(st);
    weir_trace_get(t, &d, sizeof d);
    CHECK_EQ(d.nops, 1);
    CHECK_STR_EQ(d.ops[0].name, "k");
    weir_trace_free(t);
    for (size_t n = 4; n < size; n++) {
        CHECK_STATUS(weir_trace_parse(file, n, "cut.json", &t), WEIR_EPARSE);
        CHECK_STR(weir_last_error(), "cut.json");
    }
    for (size_t i = 2; i < size; i++) { /* whatever comes of it, it is told */
        memcpy(damaged, file, size);
        damaged[i] = (char)(damaged[i] ^ 0x55);
        if (!weir_trace_parse(damaged, size, "bad.json", &t))
            weir_trace_free(t);
    }
}

TEST(trace_import, gzip_files_are_read)
{
    check_compressed(gzip_file, sizeof gzip_file - 1);
}

TEST(trace_import, zstd_files_are_read)
{
    check_compressed(zstd_file, sizeof zstd_file - 1);
}

TEST(trace_import, kernels_have_the_modules_that_launched_them)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "{\"traceEvents\":[" /* as PyTorch's profiler writes it with_modules */
        SPAN("nn.Module: Net_0", "python_function", "900", 0, 100, "")
            SPAN("nn.Module: Linear_0", "python_function", "900", 10, 20, "")
                SPAN("nn.Module: Linear_1", "python_function", "900", 40, 20, "")
                    SPAN("nn.Module: Other_0", "python_function", "901", 0, 500, "")
                        CALL("cudaLaunchKernel", 12, 1) CALL("cudaLaunchKernel", 45, 2)
                            CALL("cudaLaunchKernel", 70, 3) CALL("cudaLaunchKernel", 150, 4)
                                KERNEL("gemm", 7, 200, 5, 1) KERNEL("gemm", 7, 210, 5, 2)
                                    KERNEL("add", 7, 220, 5, 3)
                                        KERNEL("late", 7, 230, 5,
                                               4) "{\"ph\":\"M\",\"name\":\"none\",\"pid\":0}]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 4);
    CHECK_STR_EQ(find_op(&d, "gemm", 0)->scope, "Net_0.Linear_0");
    CHECK_STR_EQ(find_op(&d, "gemm", 1)->scope, "Net_0.Linear_1");
    CHECK_STR_EQ(find_op(&d, "add", 0)->scope, "Net_0");
    CHECK_STR_EQ(find_op(&d, "late", 0)->scope, "");
    weir_trace_free(t);
}

TEST(trace_import, operators_of_the_host_have_the_modules_around_them)
{
    weir_trace_data d;
    weir_trace *t =
        parse("{\"traceEvents\":[" SPAN("nn.Module: Net_0", "python_function", "9", 0, 100, "")
                  SPAN("nn.Module: Relu_0", "python_function", "9", 50, 20, "")
                      SPAN("aten::mm", "cpu_op", "9", 10, 20, "")
                          SPAN("aten::relu", "cpu_op", "9", 55, 5, "")
                              SPAN("aten::sum", "cpu_op", "9", 120, 5,
                                   "") "{\"ph\":\"M\",\"name\":\"none\",\"pid\":0}]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_STR_EQ(find_op(&d, "aten::mm", 0)->scope, "Net_0");
    CHECK_STR_EQ(find_op(&d, "aten::relu", 0)->scope, "Net_0.Relu_0");
    CHECK_STR_EQ(find_op(&d, "aten::sum", 0)->scope, "");
    weir_trace_free(t);
}

TEST(trace_import, kernels_have_the_line_of_the_program_that_launched_them)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "{\"traceEvents\":[" /* as PyTorch's profiler writes it with_stack */
        SPAN("train.py(80): main", "python_function", "900", 0, 300,
             "") SPAN("model.py(12): forward", "python_function", "900", 10, 80, "")
            SPAN("torch/nn/modules/linear.py(130): forward", "python_function", "900", 20, 20, "")
                SPAN("<built-in function linear>", "python_function", "900", 21, 18, "")
                    SPAN("torch/autograd/graph.py(9): run", "python_function", "901", 0, 500, "")
                        CALL("cudaLaunchKernel", 25, 1) CALL("cudaLaunchKernel", 60, 2)
                            CALL("cudaLaunchKernel", 150, 3) CALL("cudaLaunchKernel", 350, 4)
                                KERNEL("gemm", 7, 400, 5, 1) KERNEL("relu", 7, 410, 5, 2)
                                    KERNEL("step", 7, 420, 5, 3)
                                        KERNEL("late", 7, 430, 5,
                                               4) "{\"ph\":\"M\",\"name\":\"none\",\"pid\":0}]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 4);
    CHECK_STR_EQ(find_op(&d, "gemm", 0)->source, "model.py:12 (forward)");
    CHECK_STR_EQ(find_op(&d, "relu", 0)->source, "model.py:12 (forward)");
    CHECK_STR_EQ(find_op(&d, "step", 0)->source, "train.py:80 (main)");
    CHECK_STR_EQ(find_op(&d, "late", 0)->source, "");
    weir_trace_free(t);
}

TEST(trace_import, a_call_stack_of_an_operator_gives_its_kernels_their_line)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "{\"traceEvents\":[" /* as Ascend's profiler and older ones of PyTorch write it */
        SPAN("aten::mm", "cpu_op", "900", 10, 20,
             "\"Call stack\":\"/usr/lib/python3/dist-packages/torch/nn/functional.py(9):"
             " linear;\\r\\n/home/u/my (1)/model.py(77): forward;\\r\\n/home/u/run.py(3): "
             "<module>\"") SPAN("aten::add", "cpu_op", "900", 50, 10,
                                "\"Call stack\":\"torch/_tensor.py(40): wrapped\"")
            SPAN("aten::neg", "cpu_op", "900", 70, 10, "\"Call stack\":\"garbage();(1)\"")
                CALL("cudaLaunchKernel", 12, 1) CALL("cudaLaunchKernel", 55, 2)
                    CALL("cudaLaunchKernel", 75, 3) KERNEL("gemm", 7, 200, 5, 1) KERNEL("add", 7,
                                                                                        210, 5, 2)
                        KERNEL("neg", 7, 220, 5, 3) "{\"ph\":\"M\",\"name\":\"none\",\"pid\":0}]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_STR_EQ(find_op(&d, "gemm", 0)->source, "/home/u/my (1)/model.py:77 (forward)");
    CHECK_STR_EQ(find_op(&d, "add", 0)->source, "torch/_tensor.py:40 (wrapped)");
    CHECK_STR_EQ(find_op(&d, "neg", 0)->source, "");
    weir_trace_free(t);
}

TEST(trace_import, kernels_of_a_backward_pass_have_the_line_and_module_of_the_forward_operator)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "{\"traceEvents\":[" SPAN("model.py(12): forward", "python_function", "9", 10, 80, "") SPAN(
            "nn.Module: Net_0", "python_function", "9", 12, 70,
            "") SPAN("aten::mm", "cpu_op", "9", 20, 9, "\"Sequence number\":5,\"Fwd thread id\":0")
            SPAN("aten::mm", "cpu_op", "9", 40, 9, "\"Sequence number\":6,\"Fwd thread id\":0")
                SPAN("aten::mm", "cpu_op", "8", 40, 9, "\"Sequence number\":6,\"Fwd thread id\":0")
                    SPAN("MmBackward0", "cpu_op", "900", 200, 50,
                         "\"Sequence number\":5,\"Fwd thread id\":1")
                        SPAN("MmBackward0", "cpu_op", "900", 300, 50,
                             "\"Sequence number\":6,\"Fwd thread id\":1")
                            SPAN("MmBackward0", "cpu_op", "900", 400, 50,
                                 "\"Sequence number\":7,\"Fwd thread id\":1")
                                CALL("cudaLaunchKernel", 210, 1) CALL("cudaLaunchKernel", 310, 2)
                                    CALL("cudaLaunchKernel", 410, 3) KERNEL("grad", 7, 500, 5, 1)
                                        KERNEL("grad", 7, 510, 5, 2) KERNEL(
                                            "grad", 7, 520, 5,
                                            3) "{\"ph\":\"M\",\"name\":\"none\",\"pid\":0}]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 3);
    CHECK_STR_EQ(d.ops[0].source, "model.py:12 (forward)");
    CHECK_STR_EQ(d.ops[0].scope, "Net_0");
    CHECK_STR_EQ(d.ops[1].source, ""); /* two threads have this number */
    CHECK_STR_EQ(d.ops[2].source, "");
    weir_trace_free(t);
}

#define COLLECTIVE(name, ts, what, group, about)                                             \
    SPAN(name, "kernel", "7", ts, 5,                                                         \
         "\"grid\":[2,1,1],\"Collective name\":\"" what "\",\"Process Group Name\":\"" group \
         "\",\"Process Group Description\":\"" about "\"")

/* Kernels of one name may be collectives of several groups; kernels of any name may be some. */
TEST(trace_import, collectives_are_distinguished_by_their_group)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "[" COLLECTIVE("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                       0, "allreduce", "0", "default_pg")
            COLLECTIVE("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                       10, "allreduce", "3", "tp")
                COLLECTIVE("void one_shot<__half>(int)", 20, "allreduce", "4", "tp") "{}]");

    weir_trace_get(t, &d, sizeof d);
    CHECK_EQ(d.nops, 3);
    CHECK_STR(d.ops[0].name, "RING_LL(ncclDevKernelArgsStorage");
    CHECK_STR_EQ(d.ops[1].name, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL_group_3");
    CHECK_STR_EQ(d.ops[2].name, "nccl_allreduce_group_4_one_shot");
    weir_trace_free(t);
}
