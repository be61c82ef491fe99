// The desktop over stores on disk, frame by frame, without a display or pixels.
#pragma once

#if FORETRAIN_HAVE_UI

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "app/desktop/desktop_stores.h"
#include "tests/app/run_binary.h"
#include "ui/render/headless.h"
#include "ui/store_loader.h"
#include "ui/view/desktop/desktop.h"

namespace foretrain {

class StoreDesktop : public testing::Test {
 protected:
  // Creates a desktop without runs, and "good.db" in the folder: a short training and its forecast.
  void SetUp() override;

  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }
  // Writes `bytes` under a name, without a log next to it.
  void WriteStore(const std::string& name, const std::string& bytes);

  // Requests a store and draws frames until it is open or refused.
  void Ask(const std::string& name);
  // Lets `seconds` pass, then draws frames until no load is in progress.
  void Later(double seconds);
  // Draws each view once and expects that no label holds "nan" or "inf".
  void ExpectSenseInEveryView();

  ui::DesktopState& state() { return desktop_->state(); }
  bool Shows(std::string_view text) const;
  // All messages about stores that the desktop shows, concatenated.
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

// `bytes` of a store, damaged as `seed` selects: bits flipped anywhere, the end cut off at the edge
// of a page, or bytes of the header changed. Always differs from `bytes`.
std::string DamagedStore(const std::string& bytes, unsigned seed);

class DamagedStores : public StoreDesktop {
 protected:
  // Opens damaged stores with seeds from `first` on. Expects either a picture or a reason with the
  // file's name from each, and that the good store opens afterwards.
  void ExpectEachIsTold(unsigned first, unsigned count);
  void OpenDamaged(unsigned seed);

  int refused_ = 0;
};

}  // namespace foretrain
#endif
