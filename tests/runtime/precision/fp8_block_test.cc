// A layer's 8-bit products, op by op: every cast and product compared with its definition in
// double, on the CPU and with the CUDA kernels on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/device/device.h"
#include "runtime/ops/kernel_call.h"
#include "sim/program/blocks/blocks.h"
#include "tests/runtime/precision/eight_bits.h"
#include "tests/runtime/training.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/shim_device.h"
#endif

namespace foretrain {
namespace {

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

float FloatOf(NumberFormat format, const std::byte* at, std::int64_t i) {
  if (format == NumberFormat::kFp32) return reinterpret_cast<const float*>(at)[i];
  const std::uint32_t bits = reinterpret_cast<const std::uint16_t*>(at)[i];
  return __builtin_bit_cast(float, bits << 16);
}

// The blocks of one layer on one rank, whose ops run one after the other. Tensors shared by blocks
// (saved tensors, parameters, gradients) are stored once.
class LayerRun {
 public:
  LayerRun(const FtDeviceApi& api, const ModelSpec& model, const Plan& plan)
      : api_(api), model_(model), plan_(plan) {
    auto queue = DeviceQueue::Make(api, 0);
    EXPECT_TRUE(queue.has_value());
    queue_ = *std::move(queue);
  }

  void Run(Pass pass) {
    ++block_count_;
    block_ = BuildBlock({model_, plan_}, {.pass = pass, .recompute = plan_.recompute});
    memory_.assign(block_.slots.size(), nullptr);
    for (std::size_t s = 0; s < block_.slots.size(); ++s) Bind(s);
    for (const Op& op : block_.ops) {
      RunOp(op);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  int casts = 0, products = 0, gradients = 0;  // numbers of checked ops

 private:
  void Bind(std::size_t s) {
    const TensorSlot& slot = block_.slots[s];
    if (slot.base != kNoSlot) {
      memory_[s] = memory_[At(slot.base)] + slot.offset;
      return;
    }
    const bool own = slot.role == SlotRole::kTemporary;
    const std::pair<int, int> key{own ? -1 - block_count_ : static_cast<int>(slot.role),
                                  own ? static_cast<int>(s) : slot.index};
    std::vector<float>& bytes = shared_[key];  // aligned for any number
    if (bytes.empty()) {
      bytes.assign(At((slot.bytes + 3) / 4), std::nanf(""));
      Fill(slot, reinterpret_cast<std::byte*>(bytes.data()));
    }
    memory_[s] = reinterpret_cast<std::byte*>(bytes.data());
  }

  // Norm weights lie around 1, all others around 0.
  void Fill(const TensorSlot& slot, std::byte* at) {
    const bool filled = slot.role == SlotRole::kParameter || slot.role == SlotRole::kInput ||
                        slot.role == SlotRole::kOutputGradient;
    if (!filled) return;
    const bool weight = slot.role == SlotRole::kParameter;
    const bool of_norm = slot.name.find("norm") != std::string::npos;
    std::normal_distribution<float> number(weight && of_norm ? 1.0F : 0.0F, weight ? 0.1F : 1.0F);
    for (std::int64_t i = 0; i < ElementsIn(slot.format, slot.bytes); ++i) {
      const auto bits = __builtin_bit_cast(std::uint32_t, number(random_));
      ASSERT_EQ(slot.format, NumberFormat::kBf16) << slot.name;
      reinterpret_cast<std::uint16_t*>(at)[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }

  void RunOp(const Op& op) {
    const std::span<const Operand> operands = OperandsOf(block_, op);
    std::vector<std::byte*> at;
    for (const Operand& operand : operands) {
      at.push_back(operand.slot == kNoSlot ? nullptr : memory_[At(operand.slot)]);
    }
    const auto call = MakeKernelCall({.op = op, .operands = operands, .at = at});
    ASSERT_TRUE(call.has_value() && call->launch != nullptr) << op.name;
    ASSERT_EQ(call->launch(api_, queue_.get(), call->args, {}), FT_OK)
        << op.name << ": " << api_.queue_error(queue_.get());
    if (op.kind == OpKind::kQuantize) LookAtCast(op, at);
    if (op.kind == OpKind::kGemm && HasScalesApart(op.format)) LookAtProduct(op, at);
  }

  static Code8 CodeOf(NumberFormat format) {
    return format == NumberFormat::kE5m2 ? Code8::kE5m2 : Code8::kE4m3;
  }
  static const std::uint8_t* CodesAt(const std::byte* at) {
    return reinterpret_cast<const std::uint8_t*>(at);
  }
  static const float* ScalesAt(const std::byte* at) { return reinterpret_cast<const float*>(at); }

  void LookAtCast(const Op& op, const std::vector<std::byte*>& at) {
    SCOPED_TRACE(op.name);
    const std::int64_t cols = op.shape.cols, rows = op.shape.elements / cols;
    const std::map<NumberFormat, Shared8> kinds = {
        {NumberFormat::kFp8Tensor, Shared8::kAll},
        {NumberFormat::kFp8Block, Shared8::kRows128},
        {NumberFormat::kFp8Columns, Shared8::kColumns128},
        {NumberFormat::kFp8Tile, Shared8::kSquares128}};
    const Matrix8 made{CodeOf(op.formats[1]), kinds.at(op.format), rows, cols,
                       CodesAt(at[1]),        ScalesAt(at[2])};
    std::vector<double> x(At(op.shape.elements));
    for (std::int64_t i = 0; i < op.shape.elements; ++i) {
      x[At(i)] = IsCodes(op.formats[0]) ? Matrix8{Code8::kE4m3, Shared8::kRows128, rows,
                                                  cols,         CodesAt(at[0]),    ScalesAt(at[3])}
                                              .At(i / cols, i % cols)
                                        : static_cast<double>(FloatOf(op.formats[0], at[0], i));
    }
    ExpectQuantized(x, made);
    ++casts;
  }

  // Allows for fp32 sums in any order and rounding of the result: 2^-8 of it in bf16.
  void LookAtProduct(const Op& op, const std::vector<std::byte*>& at) {
    SCOPED_TRACE(op.name);
    const OpShape& s = op.shape;
    const bool blocks = op.format == NumberFormat::kFp8Block;
    const Shared8 of_rows = op.trans_a ? Shared8::kColumns128 : Shared8::kRows128;
    const Shared8 of_b = op.trans_a ? Shared8::kColumns128 : Shared8::kSquares128;
    const Matrix8 a{CodeOf(op.formats[0]),
                    blocks ? of_rows : Shared8::kAll,
                    op.trans_a ? s.inner : s.rows,
                    op.trans_a ? s.rows : s.inner,
                    CodesAt(at[0]),
                    ScalesAt(at[4])};
    const Matrix8 b{CodeOf(op.formats[1]),
                    blocks ? of_b : Shared8::kAll,
                    op.trans_b ? s.cols : s.inner,
                    op.trans_b ? s.inner : s.cols,
                    CodesAt(at[1]),
                    ScalesAt(at[5])};
    ASSERT_FALSE(op.accumulate) << "one micro-batch";
    const double rounding = op.formats[3] == NumberFormat::kBf16 ? 0x1p-8 : 0.0;
    for (std::int64_t r = 0; r < s.rows; r += 5) {
      for (std::int64_t c = 0; c < s.cols; c += 11) {
        double sum = at[2] != nullptr ? FloatOf(op.formats[2], at[2], c) : 0.0, size = 0.0;
        for (std::int64_t k = 0; k < s.inner; ++k) {
          const double term =
              (op.trans_a ? a.At(k, r) : a.At(r, k)) * (op.trans_b ? b.At(c, k) : b.At(k, c));
          sum += term;
          size += std::abs(term);
        }
        const double bound = static_cast<double>(s.inner + 8) * 0x1p-23 * size;
        ASSERT_NEAR(static_cast<double>(FloatOf(op.formats[3], at[3], r * s.cols + c)), sum,
                    bound + rounding * (std::abs(sum) + bound))
            << r << ", " << c;
      }
    }
    ++products;
    gradients += op.formats[0] == NumberFormat::kE5m2 ? 1 : 0;
  }

  const FtDeviceApi& api_;
  const ModelSpec& model_;
  const Plan& plan_;
  DeviceQueue queue_;
  Block block_;
  int block_count_ = 0;
  std::vector<std::byte*> memory_;
  std::map<std::pair<int, int>, std::vector<float>> shared_;
  std::mt19937 random_{7};
};

struct Device {
  const char* name;
  const FtDeviceApi* api;
};
std::vector<Device> Devices() {
  std::vector<Device> devices = {{"cpu", &CpuDeviceApi()}};
#if FORETRAIN_HAVE_CUDA_SHIM && !defined(__SANITIZE_THREAD__)
  devices.push_back({"cuda on the host", &ShimDeviceApi()});
#endif
  return devices;
}

// One layer of width 128 with 4 heads, ffn 256; 2 x 72 rows, so that the last 16 of each column
// form their own block.
Plan PlanIn(Precision precision) {
  Plan plan;
  plan.sequence = 72;
  plan.micro_batch = 2;
  plan.global_batch = 2;
  plan.precision = precision;
  return plan;
}
ModelSpec OfLayer(ModelSpec model) {
  model.layers = 1;
  model.hidden = 128;
  model.head_dim = 32;
  model.ffn_hidden = 256;
  return model;
}

// Casts: 4 inputs and 4 weights forward; 4 output gradients and 4 weights backward. With blocks,
// also the columns of 4 output gradients and 4 inputs. Products: 4 and 8.
TEST(Fp8Block, CastsAndProductsAreThoseOfTheirDefinition) {
  for (const Device& device : Devices()) {
    for (const ModelSpec& model : {OfLayer(TinyGpt()), OfLayer(TinyLlama())}) {
      for (const Precision precision : {Precision::kFp8, Precision::kFp8Block}) {
        SCOPED_TRACE(std::string(device.name) + " " + model.name + " " +
                     std::string(Name(precision)));
        const bool blocks = precision == Precision::kFp8Block;
        const Plan plan = PlanIn(precision);
        LayerRun run(*device.api, model, plan);
        run.Run(Pass::kForward);
        if (HasFatalFailure()) return;
        EXPECT_EQ(run.casts, 8);
        EXPECT_EQ(run.products, 4);
        run.Run(Pass::kBackward);
        if (HasFatalFailure()) return;
        EXPECT_EQ(run.casts, 8 + (blocks ? 16 : 8));
        EXPECT_EQ(run.products, 4 + 8);
        EXPECT_EQ(run.gradients, blocks ? 0 : 8) << "e5m2";
      }
    }
  }
}

}  // namespace
}  // namespace foretrain
