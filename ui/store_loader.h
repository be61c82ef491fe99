// Opens stores for the desktop on another thread, reads what views need of long runs, and brings
// newer runs while a store is open. Leaves out what a store is (StoreAccess).
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ui/store_access.h"
#include "ui/view/desktop/desktop_state.h"
#include "ui/view_model/runs/long_runs.h"

namespace foretrain::ui {

class StoreLoader {
 public:
  // `access` must outlive this. If it is null, nothing is ever opened.
  //
  //   doing    the progress of `access` while it opens a store, asked each frame and shown as a
  //            notice unless empty. The function may be empty.
  //   follows  whether newer runs are looked for
  explicit StoreLoader(StoreAccess* access, std::function<std::string()> doing = {},
                       bool follows = true)
      : access_(access), doing_(std::move(doing)), follows_(follows) {}
  StoreLoader(const StoreLoader&) = delete;
  StoreLoader& operator=(const StoreLoader&) = delete;

  // Takes a finished read into `state` and starts the next one: dropped files, a requested store,
  // missing spans of long runs, or newer runs.
  // It looks for newer runs about once a second, less often if that takes long. `now_s` is the time
  // of a steady clock. Returns whether `state` changed.
  bool Refresh(double now_s, DesktopState& state);

  // Whether a read is under way on another thread.
  bool IsBusy() const { return coming_.valid(); }

 private:
  using Loaded = std::unique_ptr<PreparedStore>;  // null: nothing has changed
  enum class Job { kOpen, kRead, kNewer };
  using Read = std::function<Result<std::unique_ptr<OpenedStore>>()>;

  bool Start(double now_s, DesktopState& state);
  Read NextRead(double now_s, DesktopState& state);
  Read OpenNext(DesktopState& state);
  bool Refuse(const std::string& error, DesktopState& state);
  bool Tell(std::string error, DesktopState& state);
  bool ShowDoing(DesktopState& state);
  bool Take(Result<Loaded> loaded, DesktopState& state);

  StoreAccess* access_;
  std::function<std::string()> doing_;
  bool follows_;
  Job job_ = Job::kOpen;
  bool several_ = false;              // this file is one of several that were dropped
  bool more_ = false;                 // more of them follow
  std::vector<std::string> refused_;  // notices of those that could not be opened
  double started_s_ = 0.0;
  double next_s_ = 0.0;
  std::string shown_;  // last text of doing_, in DesktopState::notices
  std::string error_;  // in DesktopState::notices
  // The model and viewport for which missing spans were last looked up.
  std::optional<std::pair<std::uint64_t, std::optional<Viewport>>> asked_for_;
  std::future<Result<Loaded>> coming_;  // last: it ends before what it uses
};

}  // namespace foretrain::ui
