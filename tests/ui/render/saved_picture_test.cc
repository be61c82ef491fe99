// Names of pictures that a key saves. The window test saves them
// (tests/app/desktop/view_window_slow_test.cc).
#include "ui/render/saved_picture.h"

#include <gtest/gtest.h>

#include "tests/traces/temp_folder.h"

namespace foretrain::ui {
namespace {

TEST(SavedPicture, NeverTakesANameThatIsTaken) {
  PosixFileSystem files;
  const TempFolder folder;
  const auto name = [&](const char* ending) {
    return NewPictureName(files, folder.File("."), "what-if", ending).value_or("");
  };
  const auto put = [&](const char* taken) {
    EXPECT_TRUE(WriteFileAtomically(files, folder.File(taken), "x").has_value());
  };
  EXPECT_EQ(name("png"), "foretrain-what-if.png");
  put("foretrain-what-if.png");
  EXPECT_EQ(name("png"), "foretrain-what-if-2.png");
  EXPECT_EQ(name("svg"), "foretrain-what-if.svg");
  put("foretrain-what-if-2.png");
  EXPECT_EQ(name("png"), "foretrain-what-if-3.png");
}

}  // namespace
}  // namespace foretrain::ui
