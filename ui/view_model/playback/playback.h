// Steps through a step of training: a moment that is moved from op to op, forwards and backwards,
// or that runs by itself. Leaves out what happens at the moment (moment.h) and drawing.
#pragma once

#include <optional>

#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

struct CompareModel;
struct InputFrame;
struct Viewport;

struct Playback {
  bool on = false;
  bool playing = false;
  double at_ns = 0.0;          // displayed time
  std::optional<Side> side{};  // whose ops are stepped through; default: the shown run's
  std::optional<int> rank{};   // only the ops of its lane; default: those of all lanes
  double speed = 1.0;          // 1: the step takes kPlayedStepS
  bool operator==(const Playback&) const = default;
};

inline constexpr double kPlayedStepS = 20.0;

// The run whose ops are stepped through; one that is present.
Side SideOf(const CompareModel& model, const Playback& play);

// The chosen step of that run in displayed time; nullopt if it has none.
struct PlayedStep {
  double start_ns = 0.0;
  double end_ns = 0.0;
};
std::optional<PlayedStep> PlayedStepOf(const CompareModel& model, const Playback& play);

// The moment after or before `play.at_ns` at which an op of the lanes starts or ends, within the
// step; nullopt if there is none. Only spans that are in memory count. O(tracks log spans).
std::optional<double> NextEvent(const CompareModel& model, const Playback& play);
std::optional<double> PreviousEvent(const CompareModel& model, const Playback& play);

// The user's commands. A hidden moment appears at the start of the step, with kBack and kToEnd at
// its end. kForward and kBack pause; beyond the first and the last op they do nothing.
enum class PlayCommand { kToggle, kForward, kBack, kToStart, kToEnd, kStop };
void Do(PlayCommand command, const CompareModel& model, Playback& play);

// Moves a moment that is playing; it pauses at the end of the step.
void Advance(const CompareModel& model, double elapsed_s, Playback& play);

// Takes the keys of this frame: space plays and pauses, the arrows step, Home and End go to the
// ends of the step, Escape hides the moment. Keys that are taken are removed from `input`. The
// viewport follows the moment when that leaves it.
void HandlePlayKeys(const CompareModel& model, InputFrame& input, Playback& play);
void FollowMoment(const Playback& play, Viewport& viewport);

}  // namespace foretrain::ui
