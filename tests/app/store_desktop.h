// The desktop over stores on disk, frame by frame, without a display or pixels.
#pragma once

#if FORETRAIN_HAVE_UI

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "app/views.h"
#include "tests/app/run_binary.h"
#include "ui/render/headless.h"
#include "ui/store_loader.h"
#include "ui/view/desktop.h"

namespace foretrain {

class StoreDesktop : public testing::Test {
 protected:
  // Makes a desktop without runs, and "good.db" in the folder: a short training and its forecast.
  void SetUp() override;

  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }
  // Puts `bytes` under a name, without a log beside it.
  void WriteStore(const std::string& name, const std::string& bytes);

  // Asks for a store and draws until it is open or refused.
  void Ask(const std::string& name);
  // What the desktop does `seconds` later, drawn until nothing is being read.
  void Later(double seconds);
  // Draws each view once and expects that no label holds what is no number.
  void ExpectSenseInEveryView();

  ui::DesktopState& state() { return desktop_->state(); }
  bool Shows(std::string_view text) const;
  // Every message the desktop shows of stores, one after another.
  std::string Messages();

  TemporaryFolder folder_;
  std::string good_;  // the bytes of good.db
  DesktopStores stores_;
  std::unique_ptr<ui::HeadlessView> view_;
  std::unique_ptr<ui::Desktop> desktop_;
  std::unique_ptr<ui::StoreLoader> loader_;
  ui::FrameRecord last_;
  double now_s_ = 0.0;

 private:
  void Settle();
};

// `bytes` of a store, damaged in the way that `seed` stands for: bits flipped anywhere, the end cut
// off at the edge of a page, bytes of the header changed. Never the same bytes.
std::string DamagedStore(const std::string& bytes, unsigned seed);

class DamagedStores : public StoreDesktop {
 protected:
  // Opens damaged stores of seeds from `first` on; expects of each a picture or a reason with the
  // file's name, and that the good store opens after it.
  void ExpectEachIsTold(unsigned first, unsigned count);
  void OpenDamaged(unsigned seed);

  int refused_ = 0;
};

}  // namespace foretrain
#endif
