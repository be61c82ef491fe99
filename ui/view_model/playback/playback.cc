#include "ui/view_model/playback/playback.h"

#include <algorithm>
#include <cmath>

#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/timeline/interaction.h"

namespace foretrain::ui {
namespace {

// Times of spans are whole nanoseconds, and so are moments that steps lead to.
constexpr double kHalfNs = 0.5;

// The earliest start or end of a span of the track after `time_ns`, in the run's own time. Spans of
// a track do not overlap, so only two of them can be it.
std::optional<double> NextIn(const Track& track, double time_ns) {
  const std::size_t i = track.FirstEndingAfter(time_ns);
  if (i == track.size()) return std::nullopt;
  const auto start = static_cast<double>(track.SpanAt(i).start_ns);
  return start > time_ns ? start : static_cast<double>(track.SpanAt(i).end_ns);
}

std::optional<double> PreviousIn(const Track& track, double time_ns) {
  const std::size_t i = track.FirstEndingAfter(time_ns - kHalfNs);
  if (i < track.size()) {
    const auto start = static_cast<double>(track.SpanAt(i).start_ns);
    if (start < time_ns) return start;
  }
  if (i == 0) return std::nullopt;
  return static_cast<double>(track.SpanAt(i - 1).end_ns);
}

// Calls `visit(track)` for the tracks whose ops are stepped through.
template <class Visit>
void ForTracks(const CompareModel& model, const Playback& play, const Visit& visit) {
  const std::size_t side = Index(SideOf(model, play));
  for (const Lane& lane : model.lanes) {
    if (play.rank.has_value() && lane.rank != *play.rank) continue;
    for (const Row& row : lane.rows[side]) {
      for (const Track& track : row.tracks) visit(track);
    }
  }
}

}  // namespace

Side SideOf(const CompareModel& model, const Playback& play) {
  const Side side = play.side.value_or(model.Shown());
  return model.Of(side).IsPresent() ? side : model.Shown();
}

std::optional<PlayedStep> PlayedStepOf(const CompareModel& model, const Playback& play) {
  const SideModel& side = model.Of(SideOf(model, play));
  if (!side.IsPresent() || side.step < 0) return std::nullopt;
  return PlayedStep{side.Displayed(side.step_start_ns), side.Displayed(side.step_end_ns)};
}

std::optional<double> NextEvent(const CompareModel& model, const Playback& play) {
  const std::optional<PlayedStep> step = PlayedStepOf(model, play);
  if (!step.has_value()) return std::nullopt;
  const SideModel& side = model.Of(SideOf(model, play));
  std::optional<double> next;
  ForTracks(model, play, [&](const Track& track) {
    const std::optional<double> own = NextIn(track, side.Own(play.at_ns));
    if (own.has_value() && (!next.has_value() || *own < *next)) next = own;
  });
  if (!next.has_value()) return std::nullopt;
  *next -= static_cast<double>(side.offset_ns);
  return *next > step->end_ns ? std::nullopt : next;
}

std::optional<double> PreviousEvent(const CompareModel& model, const Playback& play) {
  const std::optional<PlayedStep> step = PlayedStepOf(model, play);
  if (!step.has_value()) return std::nullopt;
  const SideModel& side = model.Of(SideOf(model, play));
  std::optional<double> previous;
  ForTracks(model, play, [&](const Track& track) {
    const std::optional<double> own = PreviousIn(track, side.Own(play.at_ns));
    if (own.has_value() && (!previous.has_value() || *own > *previous)) previous = own;
  });
  if (!previous.has_value()) return std::nullopt;
  *previous -= static_cast<double>(side.offset_ns);
  return *previous < step->start_ns ? std::nullopt : previous;
}

void Do(PlayCommand command, const CompareModel& model, Playback& play) {
  const std::optional<PlayedStep> step = PlayedStepOf(model, play);
  if (command == PlayCommand::kStop || !step.has_value()) {
    play.on = play.playing = false;
    return;
  }
  const bool was_on = play.on;
  play.on = true;
  if (!was_on) play.at_ns = step->start_ns;
  switch (command) {
    case PlayCommand::kToggle:
      play.playing = !play.playing;
      if (play.playing && play.at_ns >= step->end_ns) play.at_ns = step->start_ns;
      return;
    case PlayCommand::kForward:
      play.playing = false;
      if (was_on) play.at_ns = NextEvent(model, play).value_or(play.at_ns);
      return;
    case PlayCommand::kBack:
      play.playing = false;
      play.at_ns = was_on ? PreviousEvent(model, play).value_or(play.at_ns) : step->end_ns;
      return;
    case PlayCommand::kToStart:
      play.at_ns = step->start_ns;
      return;
    case PlayCommand::kToEnd:
      play.playing = false;
      play.at_ns = step->end_ns;
      return;
    case PlayCommand::kStop:
      return;
  }
}

// A frame that took long, such as the first after a pause of the desktop, counts as 0.1 s.
void Advance(const CompareModel& model, double elapsed_s, Playback& play) {
  if (!play.on || !play.playing) return;
  const std::optional<PlayedStep> step = PlayedStepOf(model, play);
  if (!step.has_value()) return;
  const double by = std::min(elapsed_s, 0.1) / kPlayedStepS * play.speed;
  play.at_ns += by * (step->end_ns - step->start_ns);
  if (play.at_ns < step->end_ns) return;
  play.at_ns = step->end_ns;
  play.playing = false;
}

void HandlePlayKeys(const CompareModel& model, InputFrame& input, Playback& play) {
  if (std::erase(input.typed, U' ') % 2 == 1) Do(PlayCommand::kToggle, model, play);
  for (; input.arrows > 0; --input.arrows) Do(PlayCommand::kForward, model, play);
  for (; input.arrows < 0; ++input.arrows) Do(PlayCommand::kBack, model, play);
  if (input.home) Do(PlayCommand::kToStart, model, play);
  if (input.end) Do(PlayCommand::kToEnd, model, play);
  input.home = input.end = false;
  if (input.escape) Do(PlayCommand::kStop, model, play);
}

// A step of the moment brings it back into the middle; a small move keeps the picture.
void FollowMoment(const Playback& play, Viewport& viewport) {
  if (!play.on) return;
  if (play.at_ns >= viewport.start_ns && play.at_ns <= viewport.end_ns) return;
  const double length = viewport.LengthNs();
  viewport.start_ns = play.at_ns - length / 2;
  viewport.end_ns = viewport.start_ns + length;
}

}  // namespace foretrain::ui
