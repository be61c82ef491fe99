#include "tests/ui/clean_frames.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ui/text_contrast.h"
#include "tests/ui/text_layout.h"
#include "ui/render/png.h"
#include "ui/view/screens/view_table.h"
#include "ui/view/widgets/fonts.h"

namespace foretrain {

using testing::IsEmpty;

void CleanFrames::Resize(const FrameSize& size) {
  size_ = size;
  view_.reset();  // its destructor resets the current context
  const bool kept = std::getenv("FORETRAIN_PICTURES") != nullptr;
  auto view =
      ui::HeadlessView::Create({static_cast<float>(size.width), static_cast<float>(size.height), 1},
                               kept ? ui::FontFolders() : std::vector<std::string>());
  ASSERT_TRUE(view.has_value()) << view.error().message;
  view_ = *std::move(view);
}

void CleanFrames::Settle() {
  Frame();
  for (int i = 0; i < 20'000 && whole_->IsMoving(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Frame();
  }
  Frame();
}

void CleanFrames::ExpectClean(const std::string& what) {
  last_ = view_->Frame(*content_);
  const ui::Image image = view_->Read();
  EXPECT_THAT(LayoutProblems(last_), IsEmpty()) << what;
  EXPECT_THAT(ContrastProblems(last_, image), IsEmpty()) << what;
  const char* const folder = std::getenv("FORETRAIN_PICTURES");
  if (folder == nullptr) return;
  const std::string name = fmt::format("{}/{}x{} {}.png", folder, size_.width, size_.height, what);
  EXPECT_TRUE(ui::WritePng(image, name).has_value());
}

void CleanFrames::ExpectCleanEverywhere(const std::string& what) {
  for (const ui::ViewEntry& view : ui::ViewTable()) {
    ASSERT_TRUE(whole_->Show(view.name).has_value());
    Settle();
    ExpectClean(what + ", " + std::string(view.name));
  }
}

}  // namespace foretrain
