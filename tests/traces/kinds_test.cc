#include "traces/kinds.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

namespace foretrain {
namespace {

template <class E, class Parse>
void ExpectNamesAreDistinctAndParse(int count, Parse parse) {
  std::set<std::string_view> seen;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<E>(i);
    EXPECT_TRUE(seen.insert(Name(value)).second) << Name(value);
    EXPECT_EQ(parse(Name(value)), value);
  }
  EXPECT_EQ(parse("no such name"), std::nullopt);
  EXPECT_EQ(parse(""), std::nullopt);
}

TEST(Kinds, NamesAreDistinctAndParseBack) {
  ExpectNamesAreDistinctAndParse<Queue>(kQueueCount, ParseQueue);
  ExpectNamesAreDistinctAndParse<Category>(kCategoryCount, ParseCategory);
  ExpectNamesAreDistinctAndParse<Space>(kSpaceCount, ParseSpace);
  ExpectNamesAreDistinctAndParse<OpClass>(kOpClassCount, ParseOpClass);
  ExpectNamesAreDistinctAndParse<Pass>(kPassCount, ParsePass);
  std::set<std::string_view> kinds;
  for (int i = 0; i < kInstructionKindCount; ++i) {
    EXPECT_TRUE(kinds.insert(Name(static_cast<InstructionKind>(i))).second) << i;
  }
}

TEST(Kinds, NamesMatchTheirEnumerators) {
  EXPECT_EQ(Name(Queue::kRecvPrev), "recv-1");
  EXPECT_EQ(Name(Queue::kNvme), "nvme");
  EXPECT_EQ(Name(Category::kMasterWeights), "master_weights");
  EXPECT_EQ(Name(Category::kStaging), "staging");
  EXPECT_EQ(Name(OpClass::kMemoryBound), "memory_bound");
  EXPECT_EQ(Name(OpClass::kHost), "host");
  EXPECT_EQ(Name(Pass::kUpdate), "update");
  EXPECT_EQ(Name(InstructionKind::kHostRead), "host_read");
  EXPECT_EQ(Name(Space::kNvme), "nvme");
}

TEST(OpId, PacksEachFieldAtItsPlace) {
  EXPECT_EQ(PackId({}, 5), 5);
  EXPECT_EQ(PackId({.part = 1}, 0), std::int64_t{1} << 12);
  EXPECT_EQ(PackId({.micro_batch = 1}, 0), std::int64_t{1} << 24);
  EXPECT_EQ(PackId({.block = 1}, 0), std::int64_t{1} << 42);
  EXPECT_EQ(PackId({.pass = Pass::kForward}, 0), std::int64_t{1} << 55);
  EXPECT_EQ(PackId({.kind = InstructionKind::kLoadBatch}, 0), std::int64_t{1} << 58);
  EXPECT_EQ(PackId({}), kWholeInstruction);
}

TEST(OpId, UnpacksWhatItPacked) {
  std::mt19937_64 random(7);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  for (int i = 0; i < 10'000; ++i) {
    const InstructionKey key{.kind = static_cast<InstructionKind>(below(kInstructionKindCount)),
                             .pass = static_cast<Pass>(below(kPassCount)),
                             .block = below(8192),
                             .micro_batch = below(1 << 18),
                             .part = below(4096)};
    const int op = below(4096);
    const OpId id = PackId(key, op);
    ASSERT_GE(id, 0);
    ASSERT_TRUE(IsValidId(id));
    ASSERT_EQ(UnpackId(id), key);
    ASSERT_EQ(OpNumber(id), op);
    ASSERT_EQ(InstructionOf(id), PackId(key));
  }
}

TEST(OpId, KnowsWhichIdsNoInstructionHas) {
  EXPECT_FALSE(IsValidId(kNoOp));
  EXPECT_FALSE(IsValidId(std::numeric_limits<OpId>::min()));
  EXPECT_FALSE(IsValidId(std::int64_t{kInstructionKindCount} << 58));  // kind 13
  EXPECT_FALSE(IsValidId(std::int64_t{kPassCount} << 55));             // pass 7
  EXPECT_TRUE(IsValidId(0));
}

TEST(OpIdDeathTest, RefusesFieldsOutOfRange) {
  EXPECT_DEATH(PackId({.block = 8192}), "kBlockBits");
  EXPECT_DEATH(PackId({.block = -1}), "kBlockBits");
  EXPECT_DEATH(PackId({.micro_batch = 1 << 18}), "kMicroBatchBits");
  EXPECT_DEATH(PackId({.part = 4096}), "kPartBits");
  EXPECT_DEATH(PackId({}, 4096), "kOpBits");
  EXPECT_DEATH(UnpackId(kNoOp), "IsValidId");
}

TEST(Describe, NamesPassBlockMicroBatchAndOp) {
  const InstructionKey key{.pass = Pass::kForward, .block = 3, .micro_batch = 2};
  EXPECT_EQ(Describe(PackId(key)), "forward block 3 mb 2");
  EXPECT_EQ(Describe(PackId(key, 5)), "forward block 3 mb 2 op 5");
  EXPECT_EQ(Describe(PackId({.pass = Pass::kBackwardWeight, .block = 0, .part = 1}, 0)),
            "backward_weight block 0 mb 0 part 1 op 0");
}

TEST(Describe, LeavesOutWhatAnInstructionHasNot) {
  EXPECT_EQ(Describe(PackId({.kind = InstructionKind::kLoadBatch, .micro_batch = 4})),
            "load_batch mb 4");
  EXPECT_EQ(Describe(PackId({.kind = InstructionKind::kReduceScatter, .part = 3})),
            "reduce_scatter bucket 3");
  EXPECT_EQ(Describe(PackId({.kind = InstructionKind::kOptimizerStep, .pass = Pass::kUpdate})),
            "optimizer_step update");
  EXPECT_EQ(
      Describe(PackId(
          {.kind = InstructionKind::kSend, .pass = Pass::kForward, .block = 6, .micro_batch = 1})),
      "send forward block 6 mb 1");
}

TEST(Describe, NamesEmbeddingLayersAndHeadOfAModel) {
  const auto at = [](int block) {
    return Describe(PackId({.pass = Pass::kForward, .block = block}), /*layers=*/3);
  };
  EXPECT_EQ(at(0), "forward embedding mb 0");
  EXPECT_EQ(at(1), "forward layer 1 mb 0");
  EXPECT_EQ(at(3), "forward layer 3 mb 0");
  EXPECT_EQ(at(4), "forward head mb 0");
  EXPECT_EQ(at(5), "forward block 5 mb 0");
}

TEST(Describe, TakesAnyNumber) {
  EXPECT_EQ(Describe(kNoOp), "no op");
  EXPECT_EQ(Describe(-7), "invalid op -7");
  EXPECT_EQ(Describe(std::numeric_limits<OpId>::max(), 4), "invalid op 9223372036854775807");
}

}  // namespace
}  // namespace foretrain
