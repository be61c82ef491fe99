// The arguments of kernel calls hold the address of every operand and every size that the table of
// ops gives to the kind.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/ops/kernel_call.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {
namespace {

// Operands lie this far apart, more than any offset into one.
constexpr std::uint64_t kApart = std::uint64_t{1} << 40;

Op OpOf(const OpKindRow& row, bool inverse) {
  Op op;
  op.kind = row.kind;
  op.inverse = inverse;
  op.op_class = ClassOf(row.kind);
  op.shape = {.rows = 8,
              .cols = 4,
              .inner = 4,
              .batch = 1,
              .sequence = 4,
              .vocab = 4,
              .elements = 32,
              .decayed = 16,
              .heads = 2,
              .kv_heads = 2,
              .head_dim = 4,
              .experts = 2,
              .per_token = 1,
              .pieces = 1};
  const auto has = [](std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
  };
  if (has(row.shape, "cp")) op.shape.cp = 2;
  // Counts are read only where the number of rows is known at run time.
  if (has(row.shape, "members")) op.shape.members = 2, op.shape.all_experts = 4;
  if (row.attributes.Has(Attribute::kClipNorm)) op.Set(Attribute::kClipNorm, 1);
  // Scales are operands of formats whose scales lie apart.
  if (has(row.operands, "scales")) op.format = NumberFormat::kFp8Block;
  return op;
}

// True if an address within operand `i` stands in the arguments.
bool HasAddress(const KernelCall& call, std::size_t i) {
  const auto& bytes = call.args.As<std::array<std::byte, KernelArgs::kBytes>>();
  const std::uint64_t first = kApart * (i + 1);
  if (std::bit_cast<std::uint64_t>(call.counts) == first) return true;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size(); at += alignof(void*)) {
    std::uint64_t word = 0;
    std::memcpy(&word, &bytes[at], sizeof word);
    if (word >= first && word < first + kApart) return true;
  }
  return false;
}

void ExpectAllOperands(const OpKindRow& row, bool inverse) {
  SCOPED_TRACE(std::string(row.name) + (inverse ? ", inverse" : ""));
  const Op op = OpOf(row, inverse);
  const OperandSpecs& specs = SpecsOf(row.kind, inverse);
  std::vector<std::byte*> at;
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < specs.count; ++i) {
    at.push_back(std::bit_cast<std::byte*>(kApart * (i + 1)));
    operands.push_back({.slot = static_cast<std::int16_t>(i)});
  }
  const std::vector<std::int64_t> bytes(specs.count, 1024);
  OpShape sequence = op.shape;
  sequence.cp = 2;
  const SequenceRuns runs(sequence);
  const auto call =
      MakeKernelCall({.op = op, .operands = operands, .at = at, .runs = &runs, .bytes = bytes});
  ASSERT_TRUE(call.has_value()) << call.error().message;
  for (std::size_t i = 0; i < specs.count; ++i) {
    EXPECT_TRUE(HasAddress(*call, i)) << "operand " << specs.specs[i].name;
  }
}

TEST(KernelArguments, HoldTheAddressOfEveryOperand) {
  for (const OpKindRow& row : kOpKinds) {
    if (row.kernel == FT_KERNEL_COUNT) continue;
    ExpectAllOperands(row, false);
    if (!row.inverse_operands.empty()) ExpectAllOperands(row, true);
  }
}

// Kinds that have no maker of their own are bound by name: spot checks of each kind of member.
TEST(KernelArguments, AreBoundByName) {
  Op op = OpOf(RowOf(OpKind::kZLossBackward), false);
  op.Set(Attribute::kZWeight, 0.5);
  op.Set(Attribute::kLossShare, 0.25);
  op.formats[0] = NumberFormat::kBf16;
  op.shape.vocab_total = 7;
  std::array<std::byte, 4> memory{};
  const std::vector<std::byte*> at(4, memory.data());
  const auto call = MakeKernelCall({.op = op, .operands = {}, .at = at, .tp = 1});
  ASSERT_TRUE(call.has_value());
  const auto* const g = ArgumentsIn<&FtDeviceApi::z_loss_backward>(*call);
  ASSERT_NE(g, nullptr);
  EXPECT_EQ(g->logits, memory.data());
  EXPECT_EQ(g->rows, 8);
  EXPECT_EQ(g->vocab, 4);
  EXPECT_EQ(g->first_id, 4);
  EXPECT_EQ(g->all_ids, 7);
  EXPECT_EQ(g->scale, 0.25F);
  EXPECT_EQ(g->weight, 0.5F);
  EXPECT_EQ(g->dtype, FT_BF16);
}

}  // namespace
}  // namespace foretrain
