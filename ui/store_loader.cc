#include "ui/store_loader.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace foretrain::ui {
namespace {

constexpr double kReloadSeconds = 1.0;
// Reading again takes at most a fifth of a processor.
constexpr double kRestPerWork = 4.0;

}  // namespace

// The next file to open: dropped files in their order, then the one that was asked for. Empty if
// there is none. Notices about files of the previous drop go when a new one starts.
StoreLoader::Read StoreLoader::OpenNext(DesktopState& state) {
  StoreRequest request;
  const bool dropped = !state.stores.dropped.empty();
  if (dropped) {
    request.path = state.stores.dropped.front();
    state.stores.dropped.erase(state.stores.dropped.begin());
  } else if (state.stores.wanted.has_value()) {
    request = *std::exchange(state.stores.wanted, std::nullopt);
  } else {
    return {};
  }
  const bool goes_on = std::exchange(more_, dropped && !state.stores.dropped.empty());
  several_ = dropped && (goes_on || more_);
  if (!goes_on) {
    for (const std::string& refused : refused_) std::erase(state.notices, refused);
    refused_.clear();
  }
  state.stores.opening = request.path;
  job_ = Job::kOpen;
  return [access = access_, request] { return access->Open(request); };
}

// The next job: open a file, else read spans that the view needs, else look for newer runs. Empty
// if there is nothing to do. Opening comes first, because it makes the other two pointless.
StoreLoader::Read StoreLoader::NextRead(double now_s, DesktopState& state) {
  if (Read open = OpenNext(state)) return open;
  const std::pair asked(state.session.model_number(), state.navigation.viewport());
  if (asked_for_ != asked) {
    asked_for_ = asked;
    const std::optional<Viewport>& viewport = state.navigation.viewport();
    auto parts = PartsToLoad(state.session.model(), viewport.has_value() ? &*viewport : nullptr);
    if (parts.has_value()) {
      job_ = Job::kRead;
      state.stores.reading_spans = true;
      return [access = access_, parts = *std::move(parts)] { return access->Read(parts); };
    }
  }
  if (!follows_ || state.session.shown().path.empty() || now_s < next_s_) return {};
  job_ = Job::kNewer;
  return [access = access_] { return access->Newer(); };
}

// Starts the next job on another thread. It prepares the model there too, so that the frame that
// takes it has little to do. Returns whether the desktop should show that something began.
bool StoreLoader::Start(double now_s, DesktopState& state) {
  Read read = NextRead(now_s, state);
  if (!read) return false;
  started_s_ = now_s;
  coming_ = std::async(
      std::launch::async,
      [read = std::move(read), options = state.session.wanted(), path = state.session.shown().path,
       run = state.session.shown().run]() -> Result<Loaded> {
        try {
          FT_ASSIGN(std::unique_ptr<OpenedStore> store, read());
          if (store == nullptr) return nullptr;
          const bool same = store->path == path && store->run == run;
          return std::make_unique<PreparedStore>(Prepare(*std::move(store), options, same));
        } catch (const std::exception& error) {
          return Fail(ErrorCode::kIo, error.what());
        }
      });
  return job_ != Job::kNewer;
}

// Shows the progress of an opening in one notice. Returns whether the notice changed.
bool StoreLoader::ShowDoing(DesktopState& state) {
  if (!doing_) return false;
  std::string now = job_ == Job::kOpen && coming_.valid() ? doing_() : std::string();
  if (now == shown_) return false;
  std::erase(state.notices, shown_);
  if (!now.empty()) state.notices.push_back(now);
  shown_ = std::move(now);
  return true;
}

// Replaces the error that is shown; empty shows none. Returns whether it changed.
bool StoreLoader::Tell(std::string error, DesktopState& state) {
  if (error == error_) return false;
  std::erase(state.notices, error_);
  error_ = std::move(error);
  if (!error_.empty()) state.notices.push_back(error_);
  return true;
}

// If several files were dropped, each that fails has a notice of its own, because the others may be
// open by then.
bool StoreLoader::Refuse(const std::string& error, DesktopState& state) {
  if (several_) {
    refused_.push_back("Not opened: " + error);
    state.notices.push_back(refused_.back());
  } else {
    state.stores.error = error;
    state.navigation.ShowStores(true);
  }
  return true;
}

// Takes a finished job. A failed read keeps what is shown and tells why, once.
bool StoreLoader::Take(Result<Loaded> loaded, DesktopState& state) {
  state.stores.opening.clear();
  state.stores.reading_spans = false;
  if (!loaded.has_value() && job_ == Job::kOpen) return Refuse(loaded.error().message, state);
  if (!loaded.has_value()) {
    return Tell(
               (job_ == Job::kRead ? "Spans cannot be read: " : "The runs cannot be read again: ") +
                   loaded.error().message,
               state) ||
           job_ == Job::kRead;
  }
  if (*loaded == nullptr) {
    // Nothing is newer. A notice about spans that could not be read stays.
    return error_.starts_with("Spans") ? false : Tell({}, state);
  }
  Tell({}, state);
  state.TakeStore(std::move(**loaded));
  // Closes the panel too if the store was open already.
  if (job_ == Job::kOpen) state.navigation.ShowStores(false);
  return true;
}

// Called every frame; never waits. Between two looks for newer runs it rests at least kRestPerWork
// times as long as the last look took.
bool StoreLoader::Refresh(double now_s, DesktopState& state) {
  if (access_ == nullptr) return false;
  const bool started = !coming_.valid() && Start(now_s, state);
  const bool there =
      coming_.valid() && coming_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  bool changed = ShowDoing(state) || started;
  if (!there) return changed;
  next_s_ = now_s + std::max(kReloadSeconds, kRestPerWork * (now_s - started_s_));
  changed = Take(coming_.get(), state) || changed;
  return ShowDoing(state) || changed;
}

}  // namespace foretrain::ui
