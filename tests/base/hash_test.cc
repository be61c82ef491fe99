#include "base/hash.h"

#include <set>

#include <gtest/gtest.h>

namespace foretrain {
namespace {

// AddWord's step computed by hand with arbitrary-precision integers. The values are stored in
// files, so they must never change.
TEST(StableHash, KeepsItsValues) {
  EXPECT_EQ(StableHash().Value(), 0xcbf29ce484222325U);
  EXPECT_EQ(StableHash().Add(0).Value(), 0x25fc6dd36ce04b20U);
  EXPECT_EQ(StableHash().Add(1).Add(2).Value(), 0x86f141fcabe31b9dU);
  EXPECT_EQ(HashText("layer 3 mlp.up"), 0x5306c20982add954U);
}

TEST(StableHash, FramesWhatItIsFed) {
  std::set<std::uint64_t> seen;
  seen.insert(StableHash().Add("ab").Add("c").Value());
  seen.insert(StableHash().Add("a").Add("bc").Value());
  seen.insert(StableHash().Add("abc").Value());
  seen.insert(StableHash().Add(std::string_view("abc\0", 4)).Value());
  seen.insert(StableHash().Add("").Value());
  seen.insert(StableHash().Add("").Add("").Value());
  EXPECT_EQ(seen.size(), 6U);
}

TEST(StableHash, TakesBothZerosForOne) {
  EXPECT_EQ(StableHash().Add(-0.0).Value(), StableHash().Add(0.0).Value());
  EXPECT_NE(StableHash().Add(-1.0).Value(), StableHash().Add(1.0).Value());
}

// None of 200,000 similar inputs may collide (probability 1e-9), and each output bit must be set in
// about half of them: five standard deviations of a fair coin are 1,118.
TEST(StableHash, SpreadsNeighbouringInputs) {
  constexpr int kInputs = 200'000;
  std::set<std::uint64_t> seen;
  int set_bits[64] = {};
  for (int i = 0; i < kInputs; ++i) {
    const std::uint64_t hash = StableHash().Add(i).Value();
    seen.insert(hash);
    for (int bit = 0; bit < 64; ++bit) set_bits[bit] += static_cast<int>((hash >> bit) & 1);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kInputs));
  for (const int count : set_bits) EXPECT_NEAR(count, kInputs / 2, 1118);
}

TEST(HexText, HasSixteenDigits) {
  EXPECT_EQ(HexText(0), "0000000000000000");
  EXPECT_EQ(HexText(0xfedcba9876543210U), "fedcba9876543210");
}

}  // namespace
}  // namespace foretrain
