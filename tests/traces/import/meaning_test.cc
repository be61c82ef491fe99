// The meaning that names, metadata and annotations of a trace give to its ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/import/trace_text.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

struct Place {
  OpClass op_class;
  Queue queue;
  bool operator==(const Place&) const = default;
};

void PrintTo(const Place& place, std::ostream* out) {
  *out << Name(place.op_class) << " on " << Name(place.queue);
}

// The place of the only span with that name in a trace of the one event.
Place PlaceOf(const std::string& category, const std::string& name, const std::string& place,
              const std::string& arguments = "") {
  const TraceRun run = ReadGood({KinetoTrace(Complete(category, name, place, 0, 10, arguments))});
  const std::vector<Span> spans = SpansNamed(run, name);
  if (spans.size() != 1) {
    ADD_FAILURE() << name << ": " << spans.size() << " spans";
    return {};
  }
  return {spans[0].op_class, spans[0].queue};
}

TEST(Meaning, OfKernelsOfEachLibrary) {
  const Place product{OpClass::kGemm, Queue::kCompute};
  const Place exchange{OpClass::kEpComm, Queue::kEp};
  for (const auto& [name, place] : {
           std::pair{"Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI32x32x8", product},
           std::pair{"triton_tem_fused_addmm_3", product},
           std::pair{"triton_tem_fused_flex_attention_1",
                     Place{OpClass::kAttention, Queue::kCompute}},
           std::pair{"void dpsk::ep::internode::dispatch<false, 8>", exchange},
           std::pair{"void deep_ep::intranode::combine<__nv_bfloat16, 8>", exchange},
           std::pair{"userbuffers_fp16_sum_inplace_gpu_rr_ag", Place{OpClass::kTpComm, Queue::kTp}},
           std::pair{"void split_embedding_forward<float>(fbgemm_gpu::Cache)",
                     Place{OpClass::kMemoryBound, Queue::kCompute}},
           std::pair{"rcclGenericKernel", Place{OpClass::kDpComm, Queue::kGather}},
       }) {
    EXPECT_EQ(PlaceOf("kernel", name, "d7"), place) << name;
  }
}

// NCCL runs an all-to-all as sends and receives; its record says what it is.
TEST(Meaning, OfACollectiveIsTheLibrarysOwnRecord) {
  const std::string kernel = "ncclDevKernel_SendRecv";
  EXPECT_EQ(PlaceOf("kernel", kernel, "d7"), (Place{OpClass::kPpComm, Queue::kSendNext}));
  EXPECT_EQ(PlaceOf("kernel", kernel, "d7", R"("Collective name":"all_to_allv")"),
            (Place{OpClass::kEpComm, Queue::kEp}));
  EXPECT_EQ(PlaceOf("kernel", kernel, "d7", R"("Collective name":"recv")"),
            (Place{OpClass::kPpComm, Queue::kRecvPrev}));
  EXPECT_EQ(PlaceOf("kernel", kernel, "d7",
                    R"("Collective name":"all_to_allv","Process Group Description":"cp")"),
            (Place{OpClass::kCpComm, Queue::kCp}));
  EXPECT_EQ(PlaceOf("kernel", "ncclDevKernel_AllGather_RING_LL", "d7",
                    R"("Collective name":"something new")"),
            (Place{OpClass::kDpComm, Queue::kGather}));
}

TEST(Meaning, OfAGroupThatHasTheNamesOfTwo) {
  for (const auto& [group, op_class] : {
           std::pair{"DATA_PARALLEL_GROUP_WITH_CP", OpClass::kDpComm},
           std::pair{"EXPERT_DATA_PARALLEL_GROUP", OpClass::kDpComm},
           std::pair{"CONTEXT_PARALLEL_GROUP", OpClass::kCpComm},
           std::pair{"EXPERT_MODEL_PARALLEL_GROUP", OpClass::kEpComm},
           std::pair{"TENSOR_MODEL_PARALLEL_GROUP", OpClass::kTpComm},
       }) {
    const std::string arguments = std::string(R"("Process Group Description":")") + group + "\"";
    EXPECT_EQ(PlaceOf("kernel", "ncclDevKernel_AllGather_RING_LL", "d7", arguments).op_class,
              op_class)
        << group;
  }
}

TEST(Meaning, OfACopyWithinTheDeviceIsACopy) {
  const Place place{OpClass::kCopy, Queue::kCompute};
  EXPECT_EQ(PlaceOf("gpu_memcpy", "Memcpy DtoD (Device -> Device)", "d7"), place);
  EXPECT_EQ(PlaceOf("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "d7"), place);
}

// FSDP copies parameters before and after it gathers them.
TEST(Meaning, OfACopyForAGatherIsNoCommunication) {
  EXPECT_EQ(PlaceOf("cpu_op", "fsdp::all_gather_copy_in", "1").op_class, OpClass::kMemoryBound);
}

// Gloo annotates the time in which it communicates, on a thread of its own.
TEST(Meaning, OfGloosAnnotationsIsCommunication) {
  const Place reduce{OpClass::kDpComm, Queue::kReduce};
  EXPECT_EQ(PlaceOf("user_annotation", "gloo:all_reduce", "9"), reduce);
  EXPECT_EQ(PlaceOf("user_annotation", "gloo:recv", "9"),
            (Place{OpClass::kPpComm, Queue::kRecvPrev}));
}

TEST(Meaning, OfAPassIsTheSuffixOfItsAnnotation) {
  const auto launched = [](const std::string& range) {
    const std::string trace =
        Complete("user_annotation", range, "1", 0, 10) + "," +
        Complete("cuda_runtime", "cudaLaunchKernel", "1", 2, 2, "\"correlation\":5") + "," +
        Complete("kernel", "relu", "d7", 6, 1, "\"correlation\":5");
    return UnpackId(SpansNamed(ReadGood({KinetoTrace(trace)}), "relu").at(0).op).pass;
  };
  EXPECT_EQ(launched("attn(F)"), Pass::kForward);
  EXPECT_EQ(launched("mlp(B)"), Pass::kBackwardInput);
  EXPECT_EQ(launched("mlp(W)"), Pass::kBackwardWeight);
}

TEST(Patterns, OfAFileGoBeforeTheBuiltInOnes) {
  FaultFileSystem files;
  files.Put("rank0.json", KinetoTrace(Complete("kernel", "My_GEMM_exchange", "d7", 0, 10)));
  files.Put("names.csv",
            "# ours\nwhere,text,class,what\r\nkernel,my_gemm_Exchange,tp_comm,all_gather\n");
  const std::vector<std::string> paths{"rank0.json"};
  const auto runs = ReadTraces(files, paths, {.patterns = "names.csv"});
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_EQ(SpansNamed(runs->at(0), "My_GEMM_exchange").at(0).op_class, OpClass::kTpComm);
}

TEST(Patterns, ThatSayNothingAreRefused) {
  for (const auto& [row, why] : {
           std::pair{"kernel,x,gemm", "names.csv, line 2: 3 cells; a row has where"},
           std::pair{"place,x,gemm,", "line 2: \"place\" is no place"},
           std::pair{"kernel,x,product,", "line 2: \"product\" is no op class"},
           std::pair{"kernel,x,gemm,sideways", "line 2: \"sideways\" says nothing"},
       }) {
    FaultFileSystem files;
    files.Put("rank0.json", KinetoTrace(Complete("kernel", "x", "d7", 0, 10)));
    files.Put("names.csv", std::string("where,text,class,what\n") + row + "\n");
    const std::vector<std::string> paths{"rank0.json"};
    const auto runs = ReadTraces(files, paths, {.patterns = "names.csv"});
    ASSERT_FALSE(runs.has_value()) << row;
    EXPECT_THAT(runs.error().message, HasSubstr(why));
  }
}

}  // namespace
}  // namespace foretrain
