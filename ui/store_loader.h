// Opens stores for the desktop on another thread, and brings newer runs while one is open. Leaves
// out what a store is (StoreAccess).
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "ui/store_access.h"
#include "ui/view/desktop_state.h"

namespace foretrain::ui {

class StoreLoader {
 public:
  // `access` may be null: then nothing is ever opened. It must outlive this.
  //
  //   doing  what `access` is at while it opens a store, asked each frame and shown as a notice; ""
  //          says nothing. May be empty.
  explicit StoreLoader(StoreAccess* access, std::function<std::string()> doing = {})
      : access_(access), doing_(std::move(doing)) {}
  StoreLoader(const StoreLoader&) = delete;
  StoreLoader& operator=(const StoreLoader&) = delete;

  // Once a frame: starts what `state` asks for (wanted_store; about once a second, newer runs) and
  // puts into it what has come. `now_s`: of a steady clock.
  void Refresh(double now_s, DesktopState& state);

  // Whether a thread is at work.
  bool IsBusy() const { return coming_.valid(); }

 private:
  using Loaded = std::unique_ptr<PreparedStore>;  // null: nothing has changed

  void Start(double now_s, DesktopState& state);
  void Take(Result<Loaded> loaded, DesktopState& state);
  void ShowDoing(DesktopState& state);

  StoreAccess* access_;
  std::function<std::string()> doing_;
  std::string shown_;     // in DesktopState::notices
  bool opening_ = false;  // else reading again
  double next_s_ = 0.0;
  std::string error_;                   // in DesktopState::notices
  std::future<Result<Loaded>> coming_;  // last: it ends before what it uses
};

}  // namespace foretrain::ui
