// Draws the moment that playback stands at into a timeline: a line, and the ops that run, start or
// end then.
#pragma once

#include "ui/view/desktop/frame.h"
#include "ui/view_model/playback/playback.h"

namespace foretrain::ui {

// Into the lanes of `frame.layout`, of the run whose ops are stepped through. Ops that run have a
// thin outline, those that start or end at the moment a thick one. Nothing if playback is off.
void DrawPlayhead(const Frame& frame, const Playback& play);

}  // namespace foretrain::ui
