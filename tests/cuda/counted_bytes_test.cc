// What the plugin's own kernels read, write and execute, counted by executing their PTX, against
// what forecasts assume for the same ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "runtime/ops/kernel_call.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/program/ir/program.h"
#include "sim/program/ops/op_work.h"
#include "tests/cuda/counted_device.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

std::string NameOf(FtKernel kernel) {
  constexpr const char* kNames[] = {
#define FT_NAME(NAME, entry, Arguments) #entry,
      FT_KERNEL_ENTRIES(FT_NAME)
#undef FT_NAME
  };
  return kNames[kernel];
}

// Products and attention reuse what they read on the chip: their requests are not their traffic.
bool IsBoundByMemory(FtKernel kernel) {
  static const std::set<FtKernel> others = {
      FT_KERNEL_GEMM, FT_KERNEL_GROUPED_GEMM, FT_KERNEL_ATTENTION_FORWARD,
      FT_KERNEL_ATTENTION_BACKWARD};
  return !others.contains(kernel);
}

// Ops of a rank's step by entry.
struct Ops {
  int count = 0;
  double bytes = 0;    // as forecasts count them
  double seconds = 0;  // as forecast
};
std::map<FtKernel, Ops> OpsOf(const Program& program, const CostModel* costs = nullptr) {
  std::map<FtKernel, Ops> of;
  for (const OpRef ref : OpRefs(program, program.ranks.front())) {
    const Op& op = OpAt(program, program.ranks.front(), ref);
    const auto kernel = KernelOf(op.kind);
    if (!kernel) continue;
    Ops& ops = of[*kernel];
    ++ops.count;
    ops.bytes += WorkOf(op).bytes;
    if (costs != nullptr) ops.seconds += costs->CostOf(op).Alone();
  }
  return of;
}

Program Compiled(const ModelSpec& model, const Plan& plan) {
  auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return *std::move(program);
}

// As `train --device cuda` chooses if nothing is given.
Plan GpuPlan() {
  Plan plan = TinyPlan();
  plan.precision = Precision::kBf16;
  plan.logits = GradientFormat::kCompute;
  plan.fuse = FusionKind::kAll;
  return plan;
}

// Rows and columns are whole words and large enough that sums of columns and statistics of rows are
// a small part, as in real models.
ModelSpec Wide(ModelSpec model) {
  model.layers = 2;
  model.hidden = 256;
  model.heads = 4;
  model.kv_heads = std::min<std::int64_t>(model.kv_heads, 4);
  model.head_dim = 64;
  model.ffn_hidden = 512;
  model.vocab = 1024;
  model.max_sequence = 64;
  return model;
}

std::map<FtKernel, ptx::Counts> CountsOf(const ModelSpec& model, const Plan& plan) {
  TrainingOptions options;
  options.steps = 1;
  options.record = false;
  options.api = &CountedCudaPlugin();
  TakeCounts();
  TrainTiny(model, plan, options);
  return TakeCounts();
}

struct Counted {
  double over_forecast = 0;        // bytes of sectors, each counted once in a launch
  double requested = 0;            // bytes that instructions ask for, over those
  double instructions_a_byte = 0;  // of warps, over those
};
std::map<FtKernel, Counted> Count(const ModelSpec& model, const Plan& plan) {
  std::map<FtKernel, Counted> counted;
  const auto ops = OpsOf(Compiled(model, plan));
  for (const auto& [kernel, counts] : CountsOf(model, plan)) {
    const auto once = static_cast<double>(counts.once);
    constexpr double kLanes = 32;
    counted[kernel] = {once / ops.at(kernel).bytes,
                       static_cast<double>(counts.read + counts.written) / once,
                       static_cast<double>(counts.instructions) / kLanes / once};
  }
  return counted;
}

TEST(CountedBytes, OfKernelsBoundByMemoryAreThoseOfForecasts) {
  Plan plan = GpuPlan();
  plan.sequence = 64;
  plan.global_batch = plan.micro_batch = 4;
  for (const auto& [name, tiny] : {std::pair{"gpt", TinyGpt()}, {"llama", TinyLlama()},
                                   {"experts", TinyExperts()}}) {
    for (const FusionKind fuse : {FusionKind::kNone, FusionKind::kAll}) {
      plan.fuse = fuse;
      for (const auto& [kernel, counted] : Count(Wide(tiny), plan)) {
        if (!IsBoundByMemory(kernel)) continue;
        std::printf("%-8s %-28s %6.3f\n", name, NameOf(kernel).c_str(), counted.over_forecast);
      }
    }
  }
}

// The row of docs/performance.md: GPT-2 124M, 64 samples of 1,024 tokens, on an H100.
TEST(CountedBytes, MakeTheTableOfPartsOfAStep) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  const auto model = FindModel(*catalogue, "gpt2-124m");
  const auto cluster = ParseCluster("1x1xh100-sxm", *catalogue);
  ASSERT_TRUE(model.has_value() && cluster.has_value());
  const auto costs = CostModel::Make(*cluster, DeriveProfile(*cluster));
  ASSERT_TRUE(costs.has_value());
  Plan plan = GpuPlan();
  plan.sequence = 1024;
  plan.global_batch = plan.micro_batch = 64;
  plan.vocab_multiple = 128;
  const auto row = OpsOf(Compiled(model->spec, plan), &*costs);

  Plan small = GpuPlan();
  small.sequence = 64;
  small.global_batch = small.micro_batch = 4;
  const auto counted = Count(Wide(TinyGpt()), small);

  constexpr double kMemory = 3.35e12;                     // bytes/s
  constexpr double kIssued = 132 * 4 * 1.755e9;           // instructions of warps a second
  std::printf("%-28s %5s %9s %8s %8s %9s %9s\n", "entry", "ops", "GB", "counted", "by bytes",
              "by issue", "forecast");
  double total = 0, forecast = 0;
  for (const auto& [kernel, ops] : row) {
    double by_bytes = 0, by_issue = 0, ratio = 0;
    if (IsBoundByMemory(kernel)) {
      ASSERT_TRUE(counted.contains(kernel)) << NameOf(kernel);
      ratio = counted.at(kernel).over_forecast;
      by_bytes = ops.bytes * ratio / kMemory;
      by_issue = ops.bytes * ratio * counted.at(kernel).instructions_a_byte / kIssued;
    }
    total += std::max({by_bytes, by_issue, IsBoundByMemory(kernel) ? 0 : ops.seconds});
    forecast += ops.seconds;
    std::printf("%-28s %5d %9.2f %8.3f %8.2f %9.2f %9.2f\n", NameOf(kernel).c_str(), ops.count,
                ops.bytes * 1e-9, ratio, by_bytes * 1e3, by_issue * 1e3, ops.seconds * 1e3);
  }
  std::printf("%-28s %42.2f %18.2f\n", "all", total * 1e3, forecast * 1e3);
}

}  // namespace
}  // namespace foretrain
