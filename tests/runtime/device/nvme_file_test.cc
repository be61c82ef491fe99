#include "runtime/device/nvme_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <vector>

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kPage = 4096;

struct Way {
  const char* name;
  bool direct;
  bool uring;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class NvmeFileWays : public testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<NvmeFile> Make(std::int64_t bytes) {
    auto made = NvmeFile::Make(bytes, {testing::TempDir(), GetParam().direct, GetParam().uring});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made.has_value() ? *std::move(made) : nullptr;
  }
};

std::vector<std::byte> Pattern(std::int64_t bytes, int seed) {
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(i * 31 + i / 4096 + static_cast<std::size_t>(seed));
  }
  return out;
}

// Sizes around a block, around a request of 1 MiB and around the 8 requests in flight; memory at
// any address.
TEST_P(NvmeFileWays, ReadsBackWhatItWrote) {
  const std::int64_t sizes[] = {1, 4, 4095, 4096, 4097, 123'456, 1 << 20, (1 << 20) + 4, 9 << 20};
  std::int64_t end = 0;
  for (const std::int64_t size : sizes) end += (size + kPage - 1) / kPage * kPage;
  const auto file = Make(end);
  ASSERT_NE(file, nullptr);
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    const auto bytes = Pattern(size, static_cast<int>(size));
    ASSERT_TRUE(file->Write(offset, size, bytes.data()).has_value());
    offset += (size + kPage - 1) / kPage * kPage;
  }
  offset = 0;
  for (const std::int64_t size : sizes) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size) + 1, std::byte{99});
    ASSERT_TRUE(file->Read(offset, size, bytes.data()).has_value());
    EXPECT_EQ(bytes.back(), std::byte{99}) << "nothing is written behind the end";
    bytes.pop_back();
    EXPECT_EQ(bytes, Pattern(size, static_cast<int>(size))) << size;
    offset += (size + kPage - 1) / kPage * kPage;
  }
}

TEST_P(NvmeFileWays, BeginsWithZerosAndTakesAlignedMemoryAsItIs) {
  const auto file = Make(3 * kPage);
  ASSERT_NE(file, nullptr);
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, 3 * kPage));
  std::memset(memory, 5, 3 * kPage);
  ASSERT_TRUE(file->Read(0, 3 * kPage, memory).has_value());
  EXPECT_THAT(std::vector(memory, memory + 3 * kPage), testing::Each(std::byte{0}));
  std::memset(memory, 7, kPage);
  ASSERT_TRUE(file->Write(kPage, kPage, memory).has_value());
  ASSERT_TRUE(file->Read(0, 3 * kPage, memory).has_value());
  EXPECT_EQ(memory[kPage - 1], std::byte{0});
  EXPECT_EQ(memory[kPage], std::byte{7});
  EXPECT_EQ(memory[2 * kPage], std::byte{0});
  std::free(memory);
}

TEST_P(NvmeFileWays, SaysWhereAReadPastTheEndFailed) {
  const auto file = Make(kPage);
  ASSERT_NE(file, nullptr);
  std::byte byte{};
  const auto read = file->Read(16 * kPage, 1, &byte);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_THAT(read.error().message, HasSubstr("at byte 65536 of a file in "));
  EXPECT_THAT(read.error().message, HasSubstr("the file ends early"));
}

INSTANTIATE_TEST_SUITE_P(Ways, NvmeFileWays,
                         testing::Values(Way{"Plain", false, false}, Way{"Direct", true, false},
                                         Way{"Uring", false, true}, Way{"DirectUring", true, true}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(NvmeFile, LeavesNothingInItsFolder) {
  const std::string folder = testing::TempDir() + "/nvme_file_test";
  std::filesystem::create_directory(folder);
  const auto file = NvmeFile::Make(1 << 20, {.folder = folder});
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "even while it is open";
  std::filesystem::remove(folder);
}

TEST(NvmeFile, SaysThatTheDiskIsTooSmall) {
  const auto file = NvmeFile::Make(std::int64_t{1} << 43, {.folder = testing::TempDir()});
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(file.error().message, HasSubstr("nvme: 8.00 TiB do not fit on "));
  EXPECT_THAT(file.error().message,
              HasSubstr(" free: No space left on device; give another folder with --nvme"));
}

TEST(NvmeFile, SaysThatTheFolderIsMissing) {
  const auto file = NvmeFile::Make(1, {.folder = "/no/such/folder"});
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
  EXPECT_THAT(file.error().message, HasSubstr("no file can be made in /no/such/folder: "));
}

}  // namespace
}  // namespace foretrain
