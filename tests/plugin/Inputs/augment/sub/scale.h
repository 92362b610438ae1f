#pragma once
__device__ inline float scale(float f)
{
    return f * 3;
}
