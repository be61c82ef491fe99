// Names of pictures that a key saves. The window test saves them
// (tests/app/desktop/view_window_slow_test.cc).
#include "ui/render/saved_picture.h"

#include <gtest/gtest.h>

#include "tests/base/fault_file_system.h"

namespace foretrain::ui {
namespace {

TEST(SavedPicture, NeverTakesANameThatIsTaken) {
  FaultFileSystem files;
  EXPECT_TRUE(files.CreateDirectories("d").has_value());
  const auto name = [&](const char* ending) {
    return NewPictureName(files, "d", "what-if", ending).value_or("");
  };
  EXPECT_EQ(name("png"), "foretrain-what-if.png");
  files.Put("d/foretrain-what-if.png", "x");
  EXPECT_EQ(name("png"), "foretrain-what-if-2.png");
  EXPECT_EQ(name("svg"), "foretrain-what-if.svg");
  files.Put("d/foretrain-what-if-2.png", "x");
  EXPECT_EQ(name("png"), "foretrain-what-if-3.png");
}

}  // namespace
}  // namespace foretrain::ui
