#include "runtime/processes/wire/job_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/processes/process_group.h"
#include "tests/runtime/ranks/free_port.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

std::string PathOf(int port) {
  return "/tmp/foretrain-" + std::to_string(geteuid()) + "-" + std::to_string(port);
}

TEST(JobKey, NeedsATokenThatNobodyGuesses) {
  const auto shorter = KeyOfToken("123456789012345");
  ASSERT_FALSE(shorter.has_value());
  EXPECT_THAT(shorter.error().message,
              AllOf(HasSubstr("15 characters"), HasSubstr("openssl rand")));
  EXPECT_TRUE(KeyOfToken("1234567890123456").has_value());
  EXPECT_NE(*KeyOfToken("1234567890123456"), *KeyOfToken("1234567890123457"));
}

TEST(JobKey, IsReadFromAFileThatIsPrivate) {
  const std::string path = ::testing::TempDir() + "token" + std::to_string(getpid());
  std::ofstream(path) << " a token of the tests\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const auto token = ReadTokenFile(path);
  ASSERT_TRUE(token.has_value()) << token.error().message;
  EXPECT_EQ(*token, "a token of the tests");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const auto open = ReadTokenFile(path);
  ASSERT_FALSE(open.has_value());
  EXPECT_THAT(open.error().message, AllOf(HasSubstr(path), HasSubstr("chmod 600")));
  std::filesystem::remove(path);
  EXPECT_EQ(ReadTokenFile(path).error().code, ErrorCode::kInvalidArgument);
}

TEST(JobKey, OfOneMachineIsInAFileOfItsUser) {
  const int port = FreePort();
  EXPECT_FALSE(ReadKeyFile(port).has_value());
  {
    const auto file = KeyFile::Make(port);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    struct stat about {};
    ASSERT_EQ(stat(PathOf(port).c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600U);
    EXPECT_EQ(ReadKeyFile(port).value_or(""), file->key());
    // A later run at the port has another key.
    const auto later = KeyFile::Make(port);
    ASSERT_TRUE(later.has_value());
    EXPECT_NE(later->key(), file->key());
  }
  EXPECT_FALSE(std::filesystem::exists(PathOf(port)));
}

// Another user may put a link or a file of its own there first.
TEST(JobKey, IsNotTakenFromALinkOrAnOpenFile) {
  const int port = FreePort();
  const std::string target = ::testing::TempDir() + "key" + std::to_string(getpid());
  std::ofstream(target) << std::string(32, 'k');
  ASSERT_EQ(chmod(target.c_str(), 0600), 0);
  ASSERT_EQ(symlink(target.c_str(), PathOf(port).c_str()), 0);
  EXPECT_FALSE(ReadKeyFile(port).has_value());
  // Rank 0 replaces the link and leaves its target alone.
  {
    const auto file = KeyFile::Make(port);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_NE(file->key(), std::string(32, 'k'));
    EXPECT_EQ(std::filesystem::file_size(target), 32U);
    ASSERT_EQ(chmod(PathOf(port).c_str(), 0604), 0);
    EXPECT_FALSE(ReadKeyFile(port).has_value());
  }
  std::filesystem::remove(target);
}

TEST(JobKey, IsRequiredAcrossMachines) {
  const auto joined = ProcessGroup::Join({0, 2, 0, "192.0.2.1", FreePort()}, kSecond);
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(joined.error().message,
              AllOf(HasSubstr("192.0.2.1"), HasSubstr("FORETRAIN_JOB_TOKEN"),
                    HasSubstr("--job-token FILE")));
  // With a token, rank 0 listens at that address or not at all: 192.0.2.0/24 is of no machine [RFC
  // 5737].
  const auto there =
      ProcessGroup::Join({0, 2, 0, "192.0.2.1", FreePort(), "a token of the tests"}, kSecond);
  ASSERT_FALSE(there.has_value());
  EXPECT_THAT(there.error().message, AllOf(HasSubstr("rank 0 listens at 192.0.2.1"),
                                           HasSubstr("an address of rank 0's machine")));
}

TEST(JobKey, OfDifferentTokensKeepsRanksApart) {
  const int port = FreePort();
  Result<std::unique_ptr<ProcessGroup>> second = Fail(ErrorCode::kIo, "");
  std::thread other([&] {
    second =
        ProcessGroup::Join({1, 2, 1, "127.0.0.1", port, "another token of the tests"}, kSecond / 2);
  });
  const auto first =
      ProcessGroup::Join({0, 2, 0, "127.0.0.1", port, "a token of the tests"}, kSecond / 2);
  other.join();
  ASSERT_FALSE(first.has_value());
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(first.error().message, AllOf(HasSubstr("for the processes of rank 1; refused"),
                                           HasSubstr("another job token")));
  EXPECT_THAT(second.error().message, HasSubstr("rank 1 waited"));
}

}  // namespace
}  // namespace foretrain
