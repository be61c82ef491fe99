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
#include "ui/view/desktop_state.h"
#include "ui/view_model/long_runs.h"

namespace foretrain::ui {

class StoreLoader {
 public:
  // `access` may be null: then nothing is ever opened. It must outlive this.
  //
  //   doing    what `access` is at while it opens a store, asked each frame and shown as a notice;
  //            "" says nothing. May be empty.
  //   follows  whether newer runs are asked for
  explicit StoreLoader(StoreAccess* access, std::function<std::string()> doing = {},
                       bool follows = true)
      : access_(access), doing_(std::move(doing)), follows_(follows) {}
  StoreLoader(const StoreLoader&) = delete;
  StoreLoader& operator=(const StoreLoader&) = delete;

  // Starts what `state` asks for (dropped files; wanted_store; spans of long runs; newer runs about
  // once a second, or less often where reading them takes long) and puts into it what has come.
  // `now_s`: of a steady clock. Returns whether `state` was changed.
  bool Refresh(double now_s, DesktopState& state);

  // Whether a thread is at work.
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
  bool several_ = false;              // what is opened is one of several that were dropped
  bool more_ = false;                 // and others of them followed it
  std::vector<std::string> refused_;  // notices of those that could not be
  double started_s_ = 0.0;
  double next_s_ = 0.0;
  std::string shown_;  // of doing_, in DesktopState::notices
  std::string error_;  // in DesktopState::notices
  // What was last asked whether spans are missing for: number of the model, and the viewport.
  std::optional<std::pair<std::uint64_t, std::optional<Viewport>>> asked_for_;
  std::future<Result<Loaded>> coming_;  // last: it ends before what it uses
};

}  // namespace foretrain::ui
