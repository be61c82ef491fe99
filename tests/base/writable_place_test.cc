#include "base/io/writable_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WritablePlace : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/foretrain-place-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    ASSERT_EQ(chmod(name, 0755), 0);
  }
  void TearDown() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }
  std::string In(const std::string& name) const { return folder_ + "/" + name; }

  // WhyNoFileCanBeMade(path) as a user without rights sees it, by a child's pipe.
  static std::string AsNobody(const std::string& path) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
      constexpr int kNobody = 65534;
      const bool changed = getuid() != 0 || (setgid(kNobody) == 0 && setuid(kNobody) == 0);
      const std::string why = changed ? WhyNoFileCanBeMade(path) : "no other user";
      const bool written = write(ends[1], why.data(), why.size()) >= 0;
      _exit(written ? 0 : 1);
    }
    close(ends[1]);
    std::string why(4096, '\0');
    const ssize_t bytes = read(ends[0], why.data(), why.size());
    why.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return why;
  }

  std::string folder_;
};

TEST_F(WritablePlace, HasNoReasonAgainstAFolderThatTakesFiles) {
  EXPECT_EQ(WhyNoFileCanBeMade(In("new")), "");
  std::ofstream(In("old")) << "there";
  EXPECT_EQ(WhyNoFileCanBeMade(In("old")), "");
}

TEST_F(WritablePlace, NamesTheFolderThatIsMissing) {
  EXPECT_THAT(WhyNoFileCanBeMade(In("a/b/c")),
              AllOf(HasSubstr("there is no folder " + In("a/b")), HasSubstr("make it")));
  EXPECT_THAT(WhyNoFileCanBeMade("nowhere-here/x"), HasSubstr("no folder nowhere-here"));
}

TEST_F(WritablePlace, NamesTheFileThatStandsWhereAFolderShould) {
  std::ofstream(In("file")) << "x";
  for (const char* path : {"file/x", "file/a/b/x"}) {
    EXPECT_THAT(WhyNoFileCanBeMade(In(path)),
                AllOf(HasSubstr(In("file") + " is not a folder"), Not(HasSubstr("make it"))));
  }
}

TEST_F(WritablePlace, NamesTheFolderThatTakesNoFilesOfThisUser) {
  ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
  EXPECT_THAT(AsNobody(In("x")), HasSubstr("files cannot be made in " + folder_));
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  std::filesystem::create_directory(In("inner"));
  if (getuid() == 0) {
    EXPECT_THAT(AsNobody(In("inner/x")), AllOf(HasSubstr(In("inner") + " cannot be reached"),
                                               HasSubstr("Permission denied")));
  }
}

}  // namespace
}  // namespace foretrain
